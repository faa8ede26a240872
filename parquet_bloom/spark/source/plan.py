"""What the data source plans: files, their schema and partition columns, and the row groups that each task reads."""

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
from .read import FilePartition, trusted
from .schema import schema_of

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+")
_SMALLEST_TASK = 4 << 20  # bytes: what Spark counts for opening a file
_LARGEST_TASK = 128 << 20
_TASKS = 32  # wanted, where nothing tells how many can run at a time


class _PlannedFile(NamedTuple):
    """What planning saw of a file: its state, size, and row groups that can hold a match as {number: rows}."""

    state: tuple[int, int | bytes | None]
    num_rows: int
    left: dict[int, int]


class FileListing:
    """The files below some paths, listed when first asked for.

    Parameters
    ----------
    options : of the read.
    """

    def __init__(self, options: Options):
        self._options = options
        self._ignore_case = options.rules.ignore_case

    @cached_property
    def _listed(self) -> tuple[list[str], Layout]:
        """The files, and how they are laid out."""
        options, paths = self._options, list(map(_usable, self._options.paths))
        files = {_plain(entry.path): entry.path for entry in list_entries(paths, options.filesystem)}
        roots = [os.path.normpath(_plain(path)) for path in paths]
        base = _plain(_usable(options.base_path)) if options.base_path else None
        try:
            of_roots = list(_by_root(list(files), roots))
            layouts = [_layout(below, root, base, self._ignore_case) for root, below in of_roots]
        except CannotPush as doubt:
            raise ParquetBloomError(str(doubt)) from None
        columns = {layout.columns for layout in layouts} or {()}
        if len(columns) > 1:
            raise ParquetBloomError("the paths have different partition columns; give the option 'basePath'")
        values = {files[file]: texts for layout in layouts for file, texts in layout.values.items()}
        if columns == {()}:
            direct = {file for root, below in of_roots for file in below if _directly_below(file, root)}
            files = {file: name for file, name in files.items() if file in direct}
        if not files:
            raise StorageError("there is no Parquet file in it", path=", ".join(options.paths))
        return list(files.values()), Layout(None, columns.pop(), values)

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The partition columns, as the folders spell them."""
        return self._listed[1].columns

    def schema(self) -> StructType:
        """The columns of all rows: those of the first file, and the partition columns.

        Raises
        ------
        ParquetBloomError
            As in `reader`; a column of the option 'columns' is not there.
        """
        files, _ = self._listed
        with open(min(files), self._options.filesystem, cache=SHARED_CACHE) as file:
            fields = {field.name: field for field in schema_of(file, self._options.inference).fields}
            for field in self._partition_fields():
                same = self._named(field.name, list(fields))
                fields[same[0] if same else field.name] = field
            merged = StructType(list(fields.values()))
            _refuse_twins(merged, self._ignore_case, file.path)
        names = self._options.columns
        return merged if names is None else StructType([merged[self._one(name, merged.names)] for name in names])

    def _partition_fields(self) -> list[StructField]:
        options, (_, layout) = self._options, self._listed
        fields = []
        for place, name in enumerate(layout.columns):
            texts = {values[place] for values in layout.values.values()}
            try:
                infers = options.infers_partitions
                found = infer_type(texts, options.zone, options.wall_clock) if infers else StringType()
            except CannotPush as doubt:
                raise UnreadableColumnError(f"its type cannot be told: {doubt}; give a schema", column=name) from None
            fields.append(StructField(name, found, True))
        return fields

    def _named(self, name: str, names: Sequence[str]) -> list[str]:
        return [own for own in names if fold_case(own, self._ignore_case) == fold_case(name, self._ignore_case)]

    def _one(self, name: str, names: Sequence[str]) -> str:
        same = self._named(name, names)
        if len(same) != 1:
            raise UnknownColumnError("no such column" if not same else "the name stands for several", column=name)
        return same[0]

    def in_folders(self, schema: StructType) -> list[tuple[int, StructField]]:
        """The columns of a schema that the folders give, and the place of each among the folders' values."""
        found = []
        for place, name in enumerate(self.partition_names):
            found += [(place, schema[own]) for own in self._named(name, schema.names)]
        return found

    def tasks(self, schema: StructType, conjuncts: Sequence[Conjunct]) -> list[tuple[FilePartition, ...]]:
        """The row groups that can hold a match, as shares of about the same number of bytes.

        Raises
        ------
        ParquetBloomError
            A file cannot be read.
        """
        files, layout = self._listed
        in_folders = self.in_folders(schema)
        told = _Told(layout, in_folders, conjuncts)
        tops = {field.name for _, field in in_folders}
        of_files = [c for c in conjuncts if any(field.path[0] not in tops for field in c.fields.values())]
        files = [file for file in files if told.may_match(file)]
        looks = map_in_threads(_Chooser(of_files, told, self._options), files)
        shares = []
        for file, look in zip(files, looks, strict=True):
            if look.left:
                texts = layout.values.get(file, ())
                values = tuple(self._value(texts[place], field, file) for place, field in in_folders)
                shares.append((FilePartition(file, tuple(look.left), look.state, values), look))
        return list(self._spread(shares))

    def _value(self, text: str | None, field: StructField, file: str) -> object:
        try:
            return parse_value(text, field.dataType, self._options.zone)
        except CannotPush as doubt:
            raise UnreadableColumnError(f"its folder's value: {doubt}", path=file, column=field.name) from None

    def _spread(self, shares: Sequence[tuple[FilePartition, _PlannedFile]]) -> Iterator[tuple[FilePartition, ...]]:
        """Whole row groups, in the order of the files, so many to a task that it has its part of the bytes."""
        options = self._options
        total = sum(look.state[0] * sum(look.left.values()) // look.num_rows for _, look in shares)
        part = max(_SMALLEST_TASK, min(_LARGEST_TASK, total // (options.parallelism or _TASKS)))
        if options.num_tasks is not None:
            part = total // options.num_tasks
        task: list[FilePartition] = []
        size = 0
        for share, look in shares:
            taken: list[int] = []
            for row_group in share.row_groups:
                num_bytes = look.state[0] * look.left[row_group] // look.num_rows
                if size and size + num_bytes > part:
                    yield (*task, *_cut(share, taken))
                    task, taken, size = [], [], 0
                taken.append(row_group)
                size += num_bytes
            task += _cut(share, taken)
        if task:
            yield tuple(task)


class _Told:
    """What files' folders tell of the columns in some conditions.

    Parameters
    ----------
    layout : of the files.
    in_folders : the columns that the folders give, each with its place among their values.
    conjuncts : the conditions.
    """

    def __init__(self, layout: Layout, in_folders: Sequence[tuple[int, StructField]], conjuncts: Sequence[Conjunct]):
        self._layout = layout
        types: dict[str, DataType] = dict.fromkeys(layout.columns, StringType())
        types |= {layout.columns[place]: field.dataType for place, field in in_folders}
        self._types = StructType([StructField(name, kind) for name, kind in types.items()])
        own = {field.name: layout.columns[place] for place, field in in_folders}
        asked = {name: field.path[0] for item in conjuncts for name, field in item.fields.items()}
        self._columns = {name: own[top] for name, top in asked.items() if top in own}
        nodes = [item.node for item in conjuncts if self._columns.keys() >= item.fields.keys()]
        self._decider = PruningPredicate(tree.all_of(nodes)) if nodes else None
        self._possible: dict[tuple[str | None, ...], bool] = {}

    @property
    def names(self) -> Collection[str]:
        """The names in the conditions that stand for such columns."""
        return self._columns.keys()

    def evidence(self, file: str) -> dict[str, PruningStatistics | None]:
        """What is known of each of the names."""
        if not self._columns:
            return {}
        known = self._layout.statistics(file, self._types)
        return {name: known[column] for name, column in self._columns.items()}

    def may_match(self, file: str) -> bool:
        """Whether the conditions on these columns alone can hold in a file."""
        if self._decider is None:
            return True
        values = self._layout.values[file]
        if values not in self._possible:
            self._possible[values] = self._decider.decide(self.evidence(file)).possible
        return self._possible[values]


class _Chooser:
    """Looks at one file after another.

    Parameters
    ----------
    conjuncts : what rows have to meet.
    told : what the folders tell of them.
    options : of the read.
    """

    def __init__(self, conjuncts: Sequence[Conjunct], told: _Told, options: Options):
        self._conjuncts = conjuncts
        self._told = told
        self._rules = options.rules
        self._filesystem = options.filesystem
        self._deciders: dict[tuple[int, ...], PruningPredicate] = {}

    def __call__(self, path: str) -> _PlannedFile:
        with open(path, self._filesystem, cache=SHARED_CACHE) as file, reading(file):
            rows = [file.footer.num_rows_of(row_group) for row_group in file.row_groups]
            kept = trusted(file, self._conjuncts, self._rules, self._told.names)
            possible = self._possible(file, path, kept) if kept else [True] * len(rows)
            left = {number: count for number, count in enumerate(rows) if count and possible[number]}
            return _PlannedFile(read_file_state(file.source), sum(rows), left)

    def _possible(self, file: BloomFile, path: str, kept: Sequence[Conjunct]) -> list[bool]:
        key = tuple(map(id, kept))
        decider = self._deciders.get(key)
        if decider is None:
            decider = self._deciders.setdefault(key, PruningPredicate(tree.all_of(item.node for item in kept)))
        others = {name: known for name, known in self._told.evidence(path).items() if name in decider.columns}
        facts = file_statistics(file, [name for name in decider.columns if name not in others], self._rules.ignore_case)
        return decider.possible(evaluate_row_groups(facts, decider, make_filter_prober(file, facts), others)).tolist()


def _cut(share: FilePartition, row_groups: Sequence[int]) -> list[FilePartition]:
    return [FilePartition(share.path, tuple(row_groups), share.state, share.partition)] if row_groups else []


def _usable(path: str) -> str:
    """A path as every host of the cluster takes it: absolute."""
    if is_url(path):
        return path
    local = local_path(path)
    if local is None:
        raise StorageError("it is neither on the local file system nor in an object store that is known", path=path)
    if not is_pattern(path) and local != path and not path.startswith("file:") and not os.path.lexists(local):
        told = f"there is no {local}; Spark's Python workers may have a folder of their own: give an absolute path"
        raise StorageError(told, path=path)
    return local


def _plain(path: str) -> str:
    """A path, or a URL as if it were one: what folders it has is all that counts."""
    return path if not is_url(path) else "/" + _SCHEME.sub("", path)


def _by_root(files: Sequence[str], roots: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each path that was given, and the files found by it.

    Raises
    ------
    Doubt
        A file may be found by several: Spark would read it twice.
    """
    if len(roots) == 1:
        yield roots[0], list(files)
        return
    found: dict[str, list[str]] = {root: [] for root in roots}
    for root in roots:
        if roots.count(root) > 1 or any(above in found for above in _above(root)):
            raise CannotPush(f"{root} is given twice")
    for file in files:
        own = next((above for above in (file, *_above(file)) if above in found), None)
        if own is None:
            raise CannotPush("patterns among several paths may name a file twice")
        found[own].append(file)
    yield from found.items()


def _above(path: str) -> Iterator[str]:
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        yield path


def _layout(files: Sequence[str], root: str, base: str | None, ignore_case: bool) -> Layout:
    """How files below one path are laid out, whatever their partition columns are called."""
    top = base or ("" if is_pattern(root) else root)
    parts = {part for file in files for part in file[len(top) :].split("/")[:-1]}
    names = sorted({pair[0] for pair in map(parse_partition, parts) if pair})
    schema = StructType([StructField(name, StringType()) for name in names])
    return find_layout(files, [root], {"basePath": base} if base else {}, schema, ignore_case)


def _directly_below(file: str, root: str) -> bool:
    """Whether Spark lists a file that is in no partition: it looks into the very folders that it was given."""
    if is_pattern(root) and not file.startswith(root):
        return file.count("/") - root.count("/") <= 1
    return root in (file, os.path.dirname(file))


def _refuse_twins(schema: StructType, ignore_case: bool, path: str) -> None:
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(fold_case(name, ignore_case), name)
        if other is not name:
            raise UnreadableColumnError(
                f"there is '{other}' as well; set the option caseSensitive", path=path, column=name
            )
