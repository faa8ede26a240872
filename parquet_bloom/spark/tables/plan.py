"""Plan the scan of a table under Spark: which files can have a match, and which of them Spark's own scan can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, DateType, StructField, StructType, TimestampType

from ...errors import UnreadableColumnError
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...predicate.reason import MISSING
from ...scan.compatibility import DatasetCompatibility
from ...scan.decode.open import open_version
from ...scan.decode.parquet_file import ParquetData
from ...scan.model.plan import FilePlan
from ...scan.model.schemas import arrow_schema, map_in_threads, reading
from ...scan.options import ScanOptions
from ...scan.report import PruneReport
from ...scan.source import ScanSource
from ...storage import is_local
from ...tables.footers import as_table_footers
from ...tables.snapshot import ReadTable, TableSnapshot
from ..arrow.convert import spark_type
from ..scan.parquet_columns import Rules
from ..scan.trust import SparkCompatibility
from ..session.fallback import log
from ..session.fields import iter_types
from ..source.schema import infer_columns
from .predicate import TableCompatibility, TablePredicate


@dataclass(frozen=True)
class FileVerdict:
    """Which ways of reading a file show it as its table does.

    Attributes
    ----------
    plan : of the file.
    not_native : why Spark's own scan does not; None if it does.
    not_in_tasks : why this package in tasks does not; None if it does.
    column : the column that this is about.
    """

    plan: FilePlan
    not_native: str | None
    not_in_tasks: str | None
    column: str | None

    def require_tasks(self, problem: object) -> None:
        """Raise UnreadableColumnError if tasks cannot read the file.

        Parameters
        ----------
        problem : why Spark's own scan does not.
        """
        if self.not_in_tasks is not None:
            text = f"{self.not_in_tasks}, and that cannot: {problem}; leave the column out by columns="
            raise UnreadableColumnError(text, path=self.plan.path, column=self.column)


@dataclass(frozen=True)
class TableScan:
    """The files of a table that can have a matching row.

    Attributes
    ----------
    report : the plan.
    verdicts : how each of the files can be read.
    """

    report: PruneReport
    verdicts: Sequence[FileVerdict]

    @property
    def native(self) -> list[FilePlan]:
        """Files that Spark's own scan shows as the table does."""
        return [verdict.plan for verdict in self.verdicts if verdict.not_native is None]

    @property
    def others(self) -> list[FilePlan]:
        """Files that tasks read."""
        return [verdict.plan for verdict in self.verdicts if verdict.not_native is not None]

    @property
    def untrusted(self) -> bool:
        """Return whether filters among the selected row groups may mislead Spark's own tasks."""
        return any(doubt.kind != MISSING for _, _, doubt in self.report.doubts)

    def require_tasks(self, problem: object) -> None:
        """Raise UnreadableColumnError if tasks cannot read all of the files; see `FileVerdict.require_tasks`."""
        for verdict in self.verdicts:
            verdict.require_tasks(problem)


def to_spark_schema(schema: pa.Schema) -> StructType:
    """Return a table's schema in Spark's types, without the columns that have none, and with nulls at every level."""
    types = ((field.name, spark_type(field.type)) for field in schema)
    return StructType([StructField(name, data_type) for name, data_type in types if data_type is not None])


def require_spark_type(schema: pa.Schema, name: str, table: str) -> None:
    """Raise UnreadableColumnError if Spark has no type for a column of a table."""
    if spark_type(schema.field(name).type) is None:
        problem = f"Spark has no type for {schema.field(name).type}; leave the column out by columns="
        raise UnreadableColumnError(problem, path=table, column=name)


def plan_table(
    table: ReadTable,
    predicate: TablePredicate,
    names: Sequence[str],
    rules: Rules,
    *,
    storage_options: Mapping[str, Any] | None,
    index: Any,
    cache: MetadataCache | None,
) -> TableScan:
    """Choose the files that can have a matching row.

    Parameters
    ----------
    names : the columns that are read, those of the condition included.
    rules : how Spark reads files.
    storage_options, index, cache : as for `parquet_bloom.prune`.

    Raises
    ------
    ParquetBloomError
        A file cannot be read, or some of these columns cannot be shown as the table has them.
    """
    source = ScanSource.resolve(table, storage_options=storage_options, index=index, cache=cache)
    by_table = DatasetCompatibility.of(table.read_snapshot().schema, sorted(predicate.fields))
    trust = TableCompatibility(by_table.columns, SparkCompatibility.of(predicate.fields, rules))
    options = ScanOptions(named=lambda _: True, trust=trust)  # Spark has resolved the names
    report = source.plan(predicate.node, options)
    for doubt in report.index_doubts:
        log.warning("the index is doubtful: %s", doubt)
    files = [file for file in report.files if file.selected]
    check = _FileCheck(table.read_snapshot(), names, rules, report.filesystem, cache)
    is_remote = not is_local(report.filesystem, [file.path for file in files])
    scan = TableScan(report, map_in_threads(check.judge, files, remote=is_remote))
    log.info("%s: %s", predicate.node or "all rows", report)
    of_tasks = [verdict for verdict in scan.verdicts if verdict.not_native is not None]
    for verdict in of_tasks:
        verdict.require_tasks(verdict.not_native)
    if of_tasks:
        first = of_tasks[0]
        shown = len(of_tasks), len(files), first.plan.path, first.not_native
        log.info("%d of %d files are read by Python tasks, such as %s: %s", *shown)
    return scan


@dataclass(frozen=True)
class _FileCheck:
    """Checks of files that a scan reads.

    Attributes
    ----------
    snapshot : of the table.
    names : the columns that are read.
    rules : how Spark reads files.
    filesystem, cache : of the files, and their footers.
    """

    snapshot: TableSnapshot
    names: Sequence[str]
    rules: Rules
    filesystem: Any
    cache: MetadataCache | None

    def judge(self, plan: FilePlan) -> FileVerdict:
        """Find out which ways of reading a file show it as the table does.

        Raises
        ------
        ParquetBloomError
            None of them does.
        """
        cache = as_table_footers(self.cache, self.snapshot.columns)
        with open_version(plan.path, self.filesystem, cache, plan.identity) as data:
            if not isinstance(data, ParquetData):
                return FileVerdict(plan, "it is not a Parquet file", None, None)
            file = data.file
            self.snapshot.require_defined(file.path, file.leaves, self.names)
            with reading(file):
                problem = "rows of it are deleted" if plan.path in self.snapshot.deletes else self._find_mismatch(file)
            return FileVerdict(plan, problem, *self._find_days(file))

    def _find_days(self, file: BloomFile) -> tuple[str, str] | tuple[None, None]:
        """Return why only Spark itself reads days and times of a file right, and the first such column."""
        calendar = self.rules.legacy_calendar(file)
        for name in self.names if calendar is not None else ():
            data_type = spark_type(self.snapshot.schema.field(name).type)
            is_stored = name not in self.snapshot.partition_values.column_names
            if is_stored and _has_days(data_type):
                return f"{calendar}, so that only Spark's own scan reads its days", name
        return None, None

    def _find_mismatch(self, file: BloomFile) -> str | None:
        """Return the first column that Spark finds under another name or as another type."""
        given = {*self.snapshot.partition_values.column_names}
        names = {name for name in self.names if name not in given}
        folded = {name.lower() for name in names}
        original = file.footer.leaves if file.cached.original is None else file.cached.original.footer.leaves
        tops: dict[str, str] = {}
        for stored, leaf in zip(original, file.leaves, strict=True):
            if leaf.path[0] in names:
                if stored.path != leaf.path:
                    return f"it has '{leaf.name}' under the name '{stored.name}'"
            elif stored.path[0].lower() in folded:
                return f"its column '{stored.name}' is another one than the table's"
            if tops.setdefault(stored.path[0].lower(), stored.path[0]) != stored.path[0]:
                return f"'{stored.path[0]}' and '{tops[stored.path[0].lower()]}' differ in case only"
        present = {leaf.path[0] for leaf in file.leaves}
        types = dict(infer_columns(file, arrow_schema(file), sorted(names & present)))
        for name in sorted(names & present):
            stored_type, shown = types[name], spark_type(self.snapshot.schema.field(name).type)
            if stored_type is None or stored_type != shown:
                return f"'{name}' is {stored_type.simpleString() if stored_type else 'of an unknown type'} in it"
        return None


def _has_days(data_type: DataType | None) -> bool:
    return data_type is None or any(isinstance(part, DateType | TimestampType) for part in iter_types(data_type))
