"""The types of what the package's functions return: datasets, scans, reports and their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .util.lazy import make_lazy

if TYPE_CHECKING:
    from .core.bloom.variants import Variant
    from .file.advise.report import AdviceReport
    from .file.advise.verdict import ColumnAdvice
    from .file.chunk_filter import ChunkFilter
    from .file.probe import Probed
    from .file.reader import BloomFile
    from .file.verify import ChunkVerdict, VerifyReport
    from .file.write.drop import DroppedFilter, DropReport
    from .file.write.embed import EmbeddedFilter, EmbedReport
    from .lake.reports import Answers, AppendReport, Candidate, CheckReport, CompactReport, IndexSnapshot, IndexStats
    from .orc.filters.filter import OrcFilter
    from .orc.reader import OrcFile
    from .predicate.reason import Reason
    from .scan.engines.dataset import Dataset, Fragment
    from .scan.model.plan import FilePlan, RowGroupPlan
    from .scan.report import PruneReport
    from .scan.scan import Scan
    from .tables.embed.report import EmbedTableReport, ExchangedFile, SkippedFile
    from .tables.files import TableFiles
    from .zones.index import ZoneIndex
    from .zones.reports import ZoneBuildReport

__all__ = [
    "AdviceReport",
    "Answers",
    "AppendReport",
    "BloomFile",
    "Candidate",
    "CheckReport",
    "ChunkFilter",
    "ChunkVerdict",
    "ColumnAdvice",
    "CompactReport",
    "Dataset",
    "DropReport",
    "DroppedFilter",
    "EmbedReport",
    "EmbedTableReport",
    "EmbeddedFilter",
    "ExchangedFile",
    "FilePlan",
    "Fragment",
    "IndexSnapshot",
    "IndexStats",
    "OrcFile",
    "OrcFilter",
    "Probed",
    "PruneReport",
    "Reason",
    "RowGroupPlan",
    "Scan",
    "SkippedFile",
    "TableFiles",
    "Variant",
    "VerifyReport",
    "ZoneBuildReport",
    "ZoneIndex",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "AdviceReport": ".file.advise.report",
    "Answers": ".lake.reports",
    "AppendReport": ".lake.reports",
    "BloomFile": ".file.reader",
    "Candidate": ".lake.reports",
    "CheckReport": ".lake.reports",
    "ChunkFilter": ".file.chunk_filter",
    "ChunkVerdict": ".file.verify",
    "ColumnAdvice": ".file.advise.verdict",
    "CompactReport": ".lake.reports",
    "Dataset": ".scan.engines.dataset",
    "DropReport": ".file.write.drop",
    "DroppedFilter": ".file.write.drop",
    "EmbedReport": ".file.write.embed",
    "EmbedTableReport": ".tables.embed.report",
    "EmbeddedFilter": ".file.write.embed",
    "ExchangedFile": ".tables.embed.report",
    "FilePlan": ".scan.model.plan",
    "Fragment": ".scan.engines.dataset",
    "IndexSnapshot": ".lake.reports",
    "IndexStats": ".lake.reports",
    "OrcFile": ".orc.reader",
    "OrcFilter": ".orc.filters.filter",
    "Probed": ".file.probe",
    "PruneReport": ".scan.report",
    "Reason": ".predicate.reason",
    "RowGroupPlan": ".scan.model.plan",
    "Scan": ".scan.scan",
    "SkippedFile": ".tables.embed.report",
    "TableFiles": ".tables.files",
    "Variant": ".core.bloom.variants",
    "VerifyReport": ".file.verify",
    "ZoneBuildReport": ".zones.reports",
    "ZoneIndex": ".zones.index",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
