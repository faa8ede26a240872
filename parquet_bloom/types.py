"""The types of what the package's functions take and return: paths, predicates, datasets, scans, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .util.lazy import make_lazy

if TYPE_CHECKING:
    from .change.commit_rows import ChangedFile
    from .change.delete_rows import DeleteReport
    from .change.erase_report import ErasedFile, EraseReport
    from .change.held_copies import HeldCopy
    from .change.upsert_rows import UpsertReport
    from .core.bloom.variants import Variant
    from .file.advice_report import AdviceReport
    from .file.bloom_file import BloomFile
    from .file.chunk_filter import ChunkFilter
    from .file.drop_filters import DroppedFilter, DropReport
    from .file.drop_rows import DroppedRows, LostPart
    from .file.embed_filters import EmbeddedFilter, EmbedReport
    from .file.probe_file import Probed
    from .file.verdict import ColumnAdvice
    from .file.verify_file import ChunkVerdict, VerifyReport
    from .lake.index_reports import (
        Answers,
        AppendReport,
        Candidate,
        CheckReport,
        CompactReport,
        IndexSnapshot,
        IndexStats,
    )
    from .orc.orc_filters import OrcFilter
    from .orc.orc_reader import OrcFile
    from .predicate.reason import Reason
    from .scan.dataset import Dataset, Fragment
    from .scan.model.scan_plan import FilePlan, RowGroupPlan
    from .scan.plan_report import PruneReport
    from .scan.scan import Scan
    from .tables.embed.embed_table import EmbedTableReport, ExchangedFile
    from .tables.embed.table_target import SkippedFile
    from .tables.table_snapshot import TableFiles
    from .util.given_types import (
        ArrowScalar,
        Condition,
        DatasetSource,
        FilePath,
        FileSystem,
        Lake,
        Paths,
        Predicate,
        RowKeys,
        Rows,
        TableObject,
        TableSource,
        Value,
        Values,
    )
    from .zones.zone_builder import ZoneBuildReport
    from .zones.zone_index import ZoneIndex

__all__ = [
    "AdviceReport",
    "Answers",
    "AppendReport",
    "ArrowScalar",
    "BloomFile",
    "Candidate",
    "ChangedFile",
    "CheckReport",
    "ChunkFilter",
    "ChunkVerdict",
    "ColumnAdvice",
    "CompactReport",
    "Condition",
    "Dataset",
    "DatasetSource",
    "DeleteReport",
    "DropReport",
    "DroppedFilter",
    "DroppedRows",
    "EmbedReport",
    "EmbedTableReport",
    "EmbeddedFilter",
    "EraseReport",
    "ErasedFile",
    "ExchangedFile",
    "FilePath",
    "FilePlan",
    "FileSystem",
    "Fragment",
    "HeldCopy",
    "IndexSnapshot",
    "IndexStats",
    "Lake",
    "LostPart",
    "OrcFile",
    "OrcFilter",
    "Paths",
    "Predicate",
    "Probed",
    "PruneReport",
    "Reason",
    "RowGroupPlan",
    "RowKeys",
    "Rows",
    "Scan",
    "SkippedFile",
    "TableFiles",
    "TableObject",
    "TableSource",
    "UpsertReport",
    "Value",
    "Values",
    "Variant",
    "VerifyReport",
    "ZoneBuildReport",
    "ZoneIndex",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "AdviceReport": ".file.advice_report",
    "Answers": ".lake.index_reports",
    "AppendReport": ".lake.index_reports",
    "ArrowScalar": ".util.given_types",
    "BloomFile": ".file.bloom_file",
    "Candidate": ".lake.index_reports",
    "ChangedFile": ".change.commit_rows",
    "CheckReport": ".lake.index_reports",
    "ChunkFilter": ".file.chunk_filter",
    "ChunkVerdict": ".file.verify_file",
    "ColumnAdvice": ".file.verdict",
    "CompactReport": ".lake.index_reports",
    "Condition": ".util.given_types",
    "Dataset": ".scan.dataset",
    "DatasetSource": ".util.given_types",
    "DeleteReport": ".change.delete_rows",
    "DropReport": ".file.drop_filters",
    "DroppedFilter": ".file.drop_filters",
    "DroppedRows": ".file.drop_rows",
    "EmbedReport": ".file.embed_filters",
    "EmbedTableReport": ".tables.embed.embed_table",
    "EmbeddedFilter": ".file.embed_filters",
    "EraseReport": ".change.erase_report",
    "ErasedFile": ".change.erase_report",
    "ExchangedFile": ".tables.embed.embed_table",
    "FilePath": ".util.given_types",
    "FilePlan": ".scan.model.scan_plan",
    "FileSystem": ".util.given_types",
    "Fragment": ".scan.dataset",
    "HeldCopy": ".change.held_copies",
    "IndexSnapshot": ".lake.index_reports",
    "IndexStats": ".lake.index_reports",
    "Lake": ".util.given_types",
    "LostPart": ".file.drop_rows",
    "OrcFile": ".orc.orc_reader",
    "OrcFilter": ".orc.orc_filters",
    "Paths": ".util.given_types",
    "Predicate": ".util.given_types",
    "Probed": ".file.probe_file",
    "PruneReport": ".scan.plan_report",
    "Reason": ".predicate.reason",
    "RowGroupPlan": ".scan.model.scan_plan",
    "RowKeys": ".util.given_types",
    "Rows": ".util.given_types",
    "Scan": ".scan.scan",
    "SkippedFile": ".tables.embed.table_target",
    "TableFiles": ".tables.table_snapshot",
    "TableObject": ".util.given_types",
    "TableSource": ".util.given_types",
    "UpsertReport": ".change.upsert_rows",
    "Value": ".util.given_types",
    "Values": ".util.given_types",
    "Variant": ".core.bloom.variants",
    "VerifyReport": ".file.verify_file",
    "ZoneBuildReport": ".zones.zone_builder",
    "ZoneIndex": ".zones.zone_index",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
