"""The data source `parquet_bloom`: `spark.read.format("parquet_bloom")`, in classic sessions and Spark Connect."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from ...errors import NotParquetError, ParquetBloomError, StorageError, UnknownColumnError, UnreadableColumnError
from ...file.bloom_file import open
from ...file.metadata_cache import SHARED_CACHE
from ...predicate import tree
from ...scan.model.folder_partitions import Partitions
from ...scan.model.scan_plan import PARQUET, FilePlan, ScanPlan, SourceListing
from ...scan.plan.plan_scan import plan_scan
from ...scan.scan_options import ScanOptions
from ...storage import Entry, FileIdentity, RemoteIdentity, is_url, list_entries
from ..jobs.file_tasks import TaskLimits
from ..plan.column_trust import SparkCompatibility
from ..session.session_settings import CannotPush, fold_case, is_pattern, local_path, use_driver_python
from ..spark_arrow import find_unknown_type
from ..spark_partitions import Layout, find_layout, find_partition_values, infer_type, parse_value
from .source_options import Conjunct, Options, parse_conjuncts, read_settings
from .source_reader import FilePartition, FilePartitionReader, find_version, pack_row_groups
from .spark_schema import infer_schema


def register(spark: SparkSession) -> None:
    """Register the data source `spark.read.format("parquet_bloom")` in a session, classic or Connect.

    The data source reads Parquet files through pyarrow, in tasks of exactly those row groups, and pages of them, that
    can hold a row for which the condition in the option `prune` is true. It suits selective queries, above all where
    Spark itself cannot skip, as on INT96 timestamps. To scan everything, Spark's own `parquet` is several times faster.

    Apply the condition to the DataFrame as well: row groups and pages are read, not only matching rows. Spark's own
    filters are not pushed down (and `spark.sql.python.filterPushdown.enabled` is not changed): Spark stores the pushed
    filters of a Python data source with the table, and reuses them for the next query on the same DataFrame, or for the
    other side of a self-join, whatever their filters are, so that rows would be lost.

    Notes
    -----
    Options: `prune` (SQL, as after WHERE; NOT, AND, OR, comparisons of columns with literals, IN, IS NULL,
    array_contains), `columns` (names separated by commas, or a JSON list: Spark does not tell Python which it needs),
    `basePath`, `numPartitions` (number of tasks), and `storage.NAME` for options of object stores, which are read by
    their URLs. A data source cannot access the session: settings that decide how files are read (case of names, legacy
    calendars, time zone) are those at the time of registration, unless they are given as options: `caseSensitive`,
    `datetimeRebaseMode`, `int96RebaseMode`, `int96TimestampConversion`, `binaryAsString`, `inferTimestampNTZ`,
    `inferPartitionTypes`, `timestampType`, `timeZone`. Register again after changing one.

    The schema is that of the first file by name, plus the partition columns of the folders; additional columns of other
    files are ignored (there is no mergeSchema), and columns that a file lacks are null. A given schema is used
    unchanged. Rows and types are those of `spark.read.parquet`; a column that pyarrow cannot read as Spark does fails
    the query with a one-line error, and can be left out by `columns`.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.register(spark)  # doctest: +SKIP
    >>> spark.read.format("parquet_bloom").option("prune", "id = 1401181143").load("lake")  # doctest: +SKIP
    """
    settings = read_settings(spark)
    parallelism = _parallelism(spark)
    if parallelism:
        settings["parallelism"] = str(parallelism)
    # A subclass per session carries the settings to the data source's worker.
    with use_driver_python(spark):
        spark.dataSource.register(type("RegisteredSource", (ParquetBloomSource,), {"settings": settings}))


def _parallelism(spark: SparkSession) -> int | None:
    """Return how many tasks run at a time; only classic sessions know."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return None


class ParquetBloomSource(DataSource):
    """Data source of Parquet files that reads only row groups that can hold a match; see `register`.

    Attributes
    ----------
    settings : settings of the session that it was registered with.
    """

    settings: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "parquet_bloom"

    def schema(self) -> StructType:
        """Return the schema of the files at the path."""
        return FileListing(self._options()).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of rows of a schema."""
        return SourceReader(self._options(), schema)

    def _options(self) -> Options:
        return Options(dict(self.options), dict(self.settings))


class SourceReader(DataSourceReader):
    """Planner and reader of the rows of a schema.

    Parameters
    ----------
    options : options of the read.
    schema : schema of the rows.
    """

    def __init__(self, options: Options, schema: StructType):
        self._options = options
        self._schema = schema
        self._conjuncts: list[Conjunct] = []
        for field in schema.fields:
            unsupported = find_unknown_type(field.dataType, takes_variants=True)
            if unsupported is not None:
                problem = f"Python cannot pass {unsupported.simpleString()} to Spark; leave it out by option 'columns'"
                raise UnreadableColumnError(problem, path=", ".join(options.paths), column=field.name)
        columns = options.columns
        if columns is not None and len(columns) != len(schema):
            raise ParquetBloomError("give a schema or the option 'columns', not both: leave columns out of the schema")
        if options.prune:
            self._conjuncts = parse_conjuncts(options.prune, schema, options.zone, options.rules.ignore_case)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; none if no row group can hold a match."""
        listing = FileListing(self._options)
        tasks = listing.plan_tasks(self._schema, self._conjuncts)
        names = tuple(field.name for _, field in listing.resolve_partition_fields(self._schema))
        return [InputPartition((names, partitions)) for partitions in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        if partition.value is None:  # Spark calls this once if there are no tasks
            return
        names, file_partitions = partition.value
        options = self._options
        stored_conjuncts = tuple(
            item for item in self._conjuncts if not any(field.path[0] in names for field in item.fields.values())
        )
        reader = FilePartitionReader(
            tuple(self._schema.fields), names, stored_conjuncts, options.rules, options.filesystem
        )
        for file_partition in file_partitions:
            yield from reader.batches(file_partition)


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")
_MIN_TASK_BYTES = 4 << 20  # Spark counts as much for opening a file
_ANY_BYTES = 1 << 62
_DEFAULT_TASKS = 32  # if it is not known how many run at a time


class FileListing:
    """The files below some paths, listed on first use.

    Parameters
    ----------
    options : options of the read.
    """

    def __init__(self, options: Options):
        self._options = options
        self._ignore_case = options.rules.ignore_case

    @cached_property
    def _files_and_layout(self) -> tuple[list[Entry], Layout]:
        """The files, and their partition layout."""
        options, paths = self._options, list(map(_resolve_path, self._options.paths))
        files = {_strip_scheme(entry.path): entry for entry in list_entries(paths, options.filesystem)}
        roots = [os.path.normpath(_strip_scheme(path)) for path in paths]
        base = _strip_scheme(_resolve_path(options.base_path)) if options.base_path else None
        try:
            files_by_root = list(_group_by_root(list(files), roots))
            layouts = [
                find_layout(below, [root], {"basePath": base} if base else {}, None, self._ignore_case)
                for root, below in files_by_root
            ]
        except CannotPush as doubt:
            raise ParquetBloomError(str(doubt)) from None
        columns = {layout.columns for layout in layouts} or {()}
        if len(columns) > 1:
            raise ParquetBloomError("the paths have different partition columns; give the option 'basePath'")
        values = {files[file].path: texts for layout in layouts for file, texts in layout.values.items()}
        if columns == {()}:
            direct = {file for root, below in files_by_root for file in below if _is_directly_below(file, root)}
            files = {file: entry for file, entry in files.items() if file in direct}
        if not files:
            raise StorageError("there is no Parquet file in it", path=", ".join(options.paths))
        return list(files.values()), Layout(None, columns.pop(), values)

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The partition columns, as the folders spell them."""
        return self._files_and_layout[1].columns

    def schema(self) -> StructType:
        """Return the columns of all rows: those of the first file, and the partition columns.

        Raises
        ------
        ParquetBloomError
            As in `reader`; or a column of the option 'columns' does not exist.
        """
        entries, _ = self._files_and_layout
        with open(min(entry.path for entry in entries), self._options.filesystem, cache=SHARED_CACHE) as file:
            fields = {field.name: field for field in infer_schema(file, self._options.inference).fields}
            for field in self._infer_partition_fields():
                matches = self._find_names(field.name, list(fields))
                fields[matches[0] if matches else field.name] = field
            merged = StructType(list(fields.values()))
            _refuse_ambiguous_names(merged, self._ignore_case, file.path)
        names = self._options.columns
        return merged if names is None else StructType([merged[self._find_name(name, merged.names)] for name in names])

    def _infer_partition_fields(self) -> list[StructField]:
        options, (_, layout) = self._options, self._files_and_layout
        fields = []
        for i, name in enumerate(layout.columns):
            texts = {values[i] for values in layout.values.values()}
            try:
                infers = options.infers_partitions
                data_type = infer_type(texts, options.zone, options.wall_clock) if infers else StringType()
            except CannotPush as doubt:
                raise UnreadableColumnError(
                    f"its type cannot be inferred: {doubt}; give a schema", column=name
                ) from None
            fields.append(StructField(name, data_type, True))
        return fields

    def _find_names(self, name: str, names: Sequence[str]) -> list[str]:
        return [
            candidate
            for candidate in names
            if fold_case(candidate, self._ignore_case) == fold_case(name, self._ignore_case)
        ]

    def _find_name(self, name: str, names: Sequence[str]) -> str:
        matches = self._find_names(name, names)
        if len(matches) != 1:
            raise UnknownColumnError("no such column" if not matches else "the name is ambiguous", column=name)
        return matches[0]

    def resolve_partition_fields(self, schema: StructType) -> list[tuple[int, StructField]]:
        """Return the partition columns of a schema, each with its position in the folders' values."""
        fields = []
        for i, name in enumerate(self.partition_names):
            fields += [(i, schema[match]) for match in self._find_names(name, schema.names)]
        return fields

    def plan_tasks(self, schema: StructType, conjuncts: Sequence[Conjunct]) -> list[tuple[FilePartition, ...]]:
        """Return the row groups that can hold a match, as tasks of about equal size in bytes.

        Raises
        ------
        ParquetBloomError
            A file cannot be read.
        """
        layout = self._files_and_layout[1]
        partition_fields = self.resolve_partition_fields(schema)
        partitions, sizes = [], []
        for plan in self._plan_files(partition_fields, conjuncts):
            row_groups = [group for group in plan.row_groups if group.read and group.num_rows]
            if row_groups:
                texts = layout.values.get(plan.path, ())
                values = tuple(self._parse_value(texts[i], field, plan.path) for i, field in partition_fields)
                assert isinstance(plan.identity, FileIdentity | RemoteIdentity)
                size, num_rows = plan.identity.size, sum(group.num_rows for group in plan.row_groups)
                state = size, find_version(plan.identity)
                partitions += [FilePartition(plan.path, (one.row_group,), state, values) for one in row_groups]
                sizes += [size * group.num_rows // num_rows for group in row_groups]  # as if all rows were of one size
        options = self._options
        limits = TaskLimits(min(options.parallelism or _DEFAULT_TASKS, max(1, sum(sizes) // _MIN_TASK_BYTES)))
        if options.num_tasks is not None:
            limits = TaskLimits(options.num_tasks, max_bytes=_ANY_BYTES)
        return pack_row_groups(partitions, sizes, limits)

    def _plan_files(
        self, partition_fields: Sequence[tuple[int, StructField]], conjuncts: Sequence[Conjunct]
    ) -> list[FilePlan]:
        """Return the plan of each file: Spark's rules decide what folders and files say."""
        options, (entries, layout) = self._options, self._files_and_layout
        node = tree.all_of(item.node for item in conjuncts) if conjuncts else None
        fields = {name: field for item in conjuncts for name, field in item.fields.items()}
        paths, values = [entry.path for entry in entries], pa.table({})
        spelled = [field.name for _, field in partition_fields]
        if node is not None:
            layout = replace(
                layout,
                columns=tuple(spelled),
                values={path: tuple(texts[i] for i, _ in partition_fields) for path, texts in layout.values.items()},
            )
            schema = StructType([field for _, field in partition_fields])
            node, values = find_partition_values(node, fields, layout, schema, paths)
        stored = {name: field for name, field in fields.items() if field.path[0] not in spelled}
        trust = SparkCompatibility.of(stored, options.rules)
        plan = plan_scan(
            SourceListing(entries, options.filesystem, Partitions.of_table(paths, values, "its folder")),
            node,
            ScanOptions(ignore_case=options.rules.ignore_case, named=lambda _: True, trust=trust),
            ScanPlan,
            SHARED_CACHE,
        )
        for file in plan.files:
            if file.format != PARQUET:
                raise NotParquetError("not a Parquet file: it ends as ORC files do", path=file.path)
        return plan.files

    def _parse_value(self, text: str | None, field: StructField, file: str) -> object:
        try:
            return parse_value(text, field.dataType, self._options.zone)
        except CannotPush as doubt:
            raise UnreadableColumnError(
                f"the value in its folder's name: {doubt}", path=file, column=field.name
            ) from None


def _resolve_path(path: str) -> str:
    """Return a path that is valid on every host of the cluster: an absolute one."""
    if is_url(path):
        return path
    local = local_path(path)
    if local is None:
        raise StorageError("it is neither on the local file system nor in a supported object store", path=path)
    if not is_pattern(path) and local != path and not path.startswith("file:") and not os.path.lexists(local):
        problem = f"there is no {local}; Spark's Python workers may run in another folder: give an absolute path"
        raise StorageError(problem, path=path)
    return local


def _strip_scheme(path: str) -> str:
    """Return a path, or a URL as if it were one: only its folders matter."""
    return path if not is_url(path) else "/" + _SCHEME.sub("", path)


def _group_by_root(files: Sequence[str], roots: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each given path with the files below it.

    Raises
    ------
    CannotPush
        A file may be below several paths: Spark would read it twice.
    """
    if len(roots) == 1:
        yield roots[0], list(files)
        return
    files_by_root: dict[str, list[str]] = {root: [] for root in roots}
    for root in roots:
        if roots.count(root) > 1 or any(parent in files_by_root for parent in _iterate_parents(root)):
            raise CannotPush(f"{root} is given twice")
    for file in files:
        root_of_file = next((parent for parent in (file, *_iterate_parents(file)) if parent in files_by_root), None)
        if root_of_file is None:
            raise CannotPush("patterns among several paths may name a file twice")
        files_by_root[root_of_file].append(file)
    yield from files_by_root.items()


def _iterate_parents(path: str) -> Iterator[str]:
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        yield path


def _is_directly_below(file: str, root: str) -> bool:
    """Return whether Spark lists a file that is in no partition: it must be directly in one of the given folders."""
    if is_pattern(root) and not file.startswith(root):
        return file.count("/") - root.count("/") <= 1
    return root in (file, os.path.dirname(file))


def _refuse_ambiguous_names(schema: StructType, ignore_case: bool, path: str) -> None:
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(fold_case(name, ignore_case), name)
        if other is not name:
            raise UnreadableColumnError(
                f"there is also '{other}'; set the option caseSensitive", path=path, column=name
            )
