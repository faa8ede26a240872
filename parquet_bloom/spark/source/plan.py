"""Planning of the data source: files, their schema and partition columns, and the row groups that each task reads."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from pyspark.sql.types import DataType, StringType, StructField, StructType

from ...errors import ParquetBloomError, StorageError, UnknownColumnError, UnreadableColumnError
from ...file.cache.memory import SHARED_CACHE
from ...file.reader import BloomFile, open
from ...file.statistics import file_statistics
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.statistics import PruningStatistics
from ...scan.evaluate.parquet import evaluate_row_groups, make_filter_prober
from ...scan.model.schemas import map_in_threads, reading
from ...storage import is_url, list_entries
from ..arrow.row_groups import read_file_state
from ..partitions.layout import Layout, find_layout, parse_partition
from ..partitions.values import infer_type, parse_value
from ..session.fallback import CannotPush
from ..session.fields import fold_case
from ..session.paths import is_pattern, local_path
from .options import Options
from .predicate import Conjunct
from .read import FilePartition, find_usable_conjuncts
from .schema import infer_schema

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")
_MIN_TASK_BYTES = 4 << 20  # Spark counts as much for opening a file
_MAX_TASK_BYTES = 128 << 20
_DEFAULT_TASKS = 32  # if it is not known how many run at a time


class _PlannedFile(NamedTuple):
    """Result of planning a file: its state, its number of rows, and its row groups to read as {number: rows}."""

    state: tuple[int, int | bytes | None]
    num_rows: int
    row_groups: dict[int, int]


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
    def _files_and_layout(self) -> tuple[list[str], Layout]:
        """The files, and their partition layout."""
        options, paths = self._options, list(map(_resolve_path, self._options.paths))
        files = {_strip_scheme(entry.path): entry.path for entry in list_entries(paths, options.filesystem)}
        roots = [os.path.normpath(_strip_scheme(path)) for path in paths]
        base = _strip_scheme(_resolve_path(options.base_path)) if options.base_path else None
        try:
            files_by_root = list(_group_by_root(list(files), roots))
            layouts = [_find_root_layout(below, root, base, self._ignore_case) for root, below in files_by_root]
        except CannotPush as doubt:
            raise ParquetBloomError(str(doubt)) from None
        columns = {layout.columns for layout in layouts} or {()}
        if len(columns) > 1:
            raise ParquetBloomError("the paths have different partition columns; give the option 'basePath'")
        values = {files[file]: texts for layout in layouts for file, texts in layout.values.items()}
        if columns == {()}:
            direct = {file for root, below in files_by_root for file in below if _is_directly_below(file, root)}
            files = {file: name for file, name in files.items() if file in direct}
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
        files, _ = self._files_and_layout
        with open(min(files), self._options.filesystem, cache=SHARED_CACHE) as file:
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
        files, layout = self._files_and_layout
        partition_fields = self.resolve_partition_fields(schema)
        pruner = _PartitionPruner(layout, partition_fields, conjuncts)
        partition_names = {field.name for _, field in partition_fields}
        file_conjuncts = [
            c for c in conjuncts if any(field.path[0] not in partition_names for field in c.fields.values())
        ]
        files = [file for file in files if pruner.may_match(file)]
        planned_files = map_in_threads(_FilePlanner(file_conjuncts, pruner, self._options), files)
        partitions = []
        for file, planned in zip(files, planned_files, strict=True):
            if planned.row_groups:
                texts = layout.values.get(file, ())
                values = tuple(self._parse_value(texts[i], field, file) for i, field in partition_fields)
                partitions.append((FilePartition(file, tuple(planned.row_groups), planned.state, values), planned))
        return list(self._pack_tasks(partitions))

    def _parse_value(self, text: str | None, field: StructField, file: str) -> object:
        try:
            return parse_value(text, field.dataType, self._options.zone)
        except CannotPush as doubt:
            raise UnreadableColumnError(
                f"the value in its folder's name: {doubt}", path=file, column=field.name
            ) from None

    def _pack_tasks(
        self, partitions: Sequence[tuple[FilePartition, _PlannedFile]]
    ) -> Iterator[tuple[FilePartition, ...]]:
        """Yield tasks of whole row groups, in the order of the files, each with its share of the bytes."""
        options = self._options
        total = sum(
            planned.state[0] * sum(planned.row_groups.values()) // planned.num_rows for _, planned in partitions
        )
        task_bytes = max(_MIN_TASK_BYTES, min(_MAX_TASK_BYTES, total // (options.parallelism or _DEFAULT_TASKS)))
        if options.num_tasks is not None:
            task_bytes = total // options.num_tasks
        task: list[FilePartition] = []
        size = 0
        for partition, planned in partitions:
            row_groups: list[int] = []
            for row_group in partition.row_groups:
                num_bytes = planned.state[0] * planned.row_groups[row_group] // planned.num_rows
                if size and size + num_bytes > task_bytes:
                    yield (*task, *_restrict_partition(partition, row_groups))
                    task, row_groups, size = [], [], 0
                row_groups.append(row_group)
                size += num_bytes
            task += _restrict_partition(partition, row_groups)
        if task:
            yield tuple(task)


class _PartitionPruner:
    """Evaluates conditions on partition columns with the values in files' folders.

    Parameters
    ----------
    layout : layout of the files.
    partition_fields : the partition columns, each with its position in the folders' values.
    conjuncts : the conditions.
    """

    def __init__(
        self, layout: Layout, partition_fields: Sequence[tuple[int, StructField]], conjuncts: Sequence[Conjunct]
    ):
        self._layout = layout
        types: dict[str, DataType] = dict.fromkeys(layout.columns, StringType())
        types |= {layout.columns[i]: field.dataType for i, field in partition_fields}
        self._types = StructType([StructField(name, kind) for name, kind in types.items()])
        folder_names = {field.name: layout.columns[i] for i, field in partition_fields}
        tops = {name: field.path[0] for item in conjuncts for name, field in item.fields.items()}
        self._columns = {name: folder_names[top] for name, top in tops.items() if top in folder_names}
        nodes = [item.node for item in conjuncts if self._columns.keys() >= item.fields.keys()]
        self._predicate = PruningPredicate(tree.all_of(nodes)) if nodes else None
        self._possible: dict[tuple[str | None, ...], bool] = {}

    @property
    def names(self) -> Collection[str]:
        """The names in the conditions that are partition columns."""
        return self._columns.keys()

    def statistics(self, file: str) -> dict[str, PruningStatistics | None]:
        """Return the statistics of each of these names in a file."""
        if not self._columns:
            return {}
        statistics = self._layout.statistics(file, self._types)
        return {name: statistics[column] for name, column in self._columns.items()}

    def may_match(self, file: str) -> bool:
        """Return whether a file's partition values can meet the conditions on partition columns alone."""
        if self._predicate is None:
            return True
        values = self._layout.values[file]
        if values not in self._possible:
            self._possible[values] = self._predicate.decide(self.statistics(file)).possible
        return self._possible[values]


class _FilePlanner:
    """Plans one file at a time.

    Parameters
    ----------
    conjuncts : conditions on rows.
    partitions : the conditions on partition columns.
    options : options of the read.
    """

    def __init__(self, conjuncts: Sequence[Conjunct], partitions: _PartitionPruner, options: Options):
        self._conjuncts = conjuncts
        self._partitions = partitions
        self._rules = options.rules
        self._filesystem = options.filesystem
        self._predicates: dict[tuple[int, ...], PruningPredicate] = {}

    def __call__(self, path: str) -> _PlannedFile:
        with open(path, self._filesystem, cache=SHARED_CACHE) as file, reading(file):
            rows = [file.footer.num_rows_of(row_group) for row_group in file.row_groups]
            conjuncts = find_usable_conjuncts(file, self._conjuncts, self._rules, self._partitions.names)
            can_match = self._can_match(file, path, conjuncts) if conjuncts else [True] * len(rows)
            row_groups = {
                row_group: num_rows for row_group, num_rows in enumerate(rows) if num_rows and can_match[row_group]
            }
            return _PlannedFile(read_file_state(file.source), sum(rows), row_groups)

    def _can_match(self, file: BloomFile, path: str, conjuncts: Sequence[Conjunct]) -> list[bool]:
        key = tuple(map(id, conjuncts))
        predicate = self._predicates.get(key)
        if predicate is None:
            predicate = self._predicates.setdefault(key, PruningPredicate(tree.all_of(item.node for item in conjuncts)))
        partition_statistics = {
            name: statistics
            for name, statistics in self._partitions.statistics(path).items()
            if name in predicate.columns
        }
        statistics_of_file = file_statistics(
            file, [name for name in predicate.columns if name not in partition_statistics], self._rules.ignore_case
        )
        return predicate.possible(
            evaluate_row_groups(
                statistics_of_file, predicate, make_filter_prober(file, statistics_of_file), partition_statistics
            )
        ).tolist()


def _restrict_partition(partition: FilePartition, row_groups: Sequence[int]) -> list[FilePartition]:
    return (
        [FilePartition(partition.path, tuple(row_groups), partition.state, partition.partition_values)]
        if row_groups
        else []
    )


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


def _find_root_layout(files: Sequence[str], root: str, base: str | None, ignore_case: bool) -> Layout:
    """Return the layout of the files below one path, whatever the names of their partition columns."""
    prefix = base or ("" if is_pattern(root) else root)
    folder_names = {folder_name for file in files for folder_name in file[len(prefix) :].split("/")[:-1]}
    names = sorted({pair[0] for pair in map(parse_partition, folder_names) if pair})
    schema = StructType([StructField(name, StringType()) for name in names])
    return find_layout(files, [root], {"basePath": base} if base else {}, schema, ignore_case)


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
