"""A lake as a source of Ray Data: planned on the driver, read by Ray's tasks.

Ray evaluates expressions by Arrow, as a dataset does: a filter that Ray pushes down is the dataset's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..errors import ParquetBloomError, UnknownColumnError
from ..scan.dataset import Dataset, Fragment, require_dataset
from ..scan.lookup.key_chunks import KeyCounts, list_columns
from ..scan.lookup.locate_keys import INDEX_KEYS, Locator
from ..scan.model.scan_plan import FilePlan
from ..scan.model.split_plan import count_all_rows, estimate_bytes
from ..scan.scan import Scan
from ..scan.scan_options import ScanOptions
from ..scan.sent_source import Files, SentSource, find_candidates
from ..tables.table_part import TablePart
from .needed_library import needed_library, require_release

with needed_library("ray", "RayLake needs Ray Data 2.56 or newer", "'ray[data]>=2.56'"):
    import ray
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockAccessor, BlockMetadata

if TYPE_CHECKING:
    from ray.data.context import DataContext
    from ray.data.expressions import Expr

    from ..util.given_types import Predicate


# Before, a source has to rename columns, and to apply filters that have functions.
require_release("RayLake", "ray[data]", ray.__version__, "2.56")


class RayLake(Datasource):  # type: ignore[misc]
    """A dataset for `ray.data.read_datasource`, of which tasks read only the files and row groups that a query needs.

    The driver lists the files and plans them, by statistics, filters, indexes and zones; each task gets the plan of its
    own files. Columns that a pipeline selects are the only ones that are read, and filters that are expressions
    (`ray.data.Dataset.filter(expr=...)`) choose files, row groups and rows.

    Parameters
    ----------
    dataset : as `parquet_bloom.dataset` returns it, also of a table or an index.
    where : which rows there are, as for `Dataset.scan`; None for all. With it, filters of the pipeline are left to Ray,
        which applies them to these rows.
    dialect : of SQL text in `where`.

    Raises
    ------
    PredicateError
        The predicate cannot be parsed.
    """

    def __init__(self, dataset: Dataset, where: Predicate | None = None, *, dialect: str | None = None):
        super().__init__()
        require_dataset(dataset)
        self._dataset, self._where, self._dialect = dataset, where, dialect
        self._projection_map: Mapping[str, str] | None = None
        if where is not None:
            dataset.scan(where, dialect=dialect)  # errors in it are the caller's

    def get_name(self) -> str:
        """Return the name that Ray shows."""
        return "ParquetBloom"

    def supports_projection_pushdown(self) -> bool:
        return True

    def supports_predicate_pushdown(self) -> bool:
        return self._where is None

    def apply_projection(self, projection_map: Mapping[str, str] | None) -> RayLake:
        return _forget_plan(super().apply_projection(projection_map))

    def apply_predicate(self, predicate_expr: Expr) -> RayLake:
        return _forget_plan(super().apply_predicate(predicate_expr))

    def estimate_inmemory_data_size(self) -> int:
        """Return about how many bytes of the files are read."""
        return sum(map(estimate_bytes, self._plan_files(self._whole)))

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        """Return at most so many tasks, each of some of the files, in their order; at least one."""
        columns, schema = self._columns, self._dataset.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        # Ray takes a number for exact, and counts rows by it.
        whole, table = self._whole, self._dataset.table
        is_exact = whole is None or (isinstance(whole, Fragment) and whole.filter is None and table is None)
        tasks = []
        for part in (whole and whole.split(max(1, parallelism))) or [None]:
            files = self._plan_files(part)
            metadata = BlockMetadata(
                num_rows=count_all_rows(files) if is_exact else None,
                size_bytes=sum(map(estimate_bytes, files)),
                input_files=[file.path for file in files],
                exec_stats=None,
            )
            read = partial(_read_part, part, columns, schema)
            tasks.append(ReadTask(read, metadata, schema=schema, per_task_row_limit=per_task_row_limit))
        return tasks

    @property
    def _columns(self) -> list[str] | None:
        return None if self._projection_map is None else list(self._projection_map)

    @cached_property
    def _whole(self) -> Scan | Fragment | None:
        """All that is read, planned once: Ray asks for tasks several times; None if nothing is."""
        if self._where is not None:
            # At least one column, whose rows can be counted.
            columns = self._dataset.schema.names[:1] if self._columns == [] else self._columns
            return self._dataset.scan(self._where, columns, dialect=self._dialect)
        expression = self._predicate_expr
        return next(iter(self._dataset.split(1, None if expression is None else expression.to_pyarrow())), None)

    @staticmethod
    def _plan_files(part: Scan | Fragment | None) -> Sequence[FilePlan]:
        return [] if part is None else part.plan().files


def _forget_plan(source: RayLake) -> RayLake:
    source.__dict__.pop("_whole", None)
    return source


def _read_part(part: Scan | Fragment | None, columns: list[str] | None, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of a task; a table without rows at least."""
    batches: Iterable[pa.RecordBatch] = ()
    if isinstance(part, Fragment):
        batches = part.to_batches(columns=columns or (None if columns is None else part.physical_schema.names[:1]))
    elif part is not None:
        batches = part.to_batches()
    is_empty = True
    for batch in batches:
        if batch.num_rows:
            yield _select(pa.Table.from_batches([batch]), columns)
            is_empty = False
    if is_empty:
        yield _select(schema.empty_table(), columns)


def _select(rows: pa.Table, columns: list[str] | None) -> pa.Table:
    """Return the columns as Ray wants them: of none it keeps the number of rows in a column of its own."""
    return BlockAccessor.for_block(rows).select([]) if columns == [] else rows


class RayPositions(Datasource):  # type: ignore[misc]
    """The positions of all rows with any of some keys, for `ray.data.read_datasource`: `Dataset.locate` in Ray's tasks.

    The keys stay in Ray's object store, from which each task takes them to search its own files: a file is read once,
    however many keys there are. Up to 100,000 keys are brought to the driver if the dataset has an index, which says
    what files may have one.

    The rows are those of `Dataset.locate`, `key`, `path`, `row_group` and `row`, in the order of files.

    Parameters
    ----------
    dataset : as `parquet_bloom.dataset` returns it, also of a table or an index; its files are listed now.
    column : of the key; or a list of columns, whose values together are the key.
    keys : has columns of these names; for a key of one column it may be its only column, of any name. Nulls equal
        nothing, and are left out. It is executed now.

    Raises
    ------
    UnknownColumnError
        The dataset, or the keys, have no such column.
    """

    def __init__(self, dataset: Dataset, column: str | Sequence[str], keys: ray.data.Dataset):
        super().__init__()
        require_dataset(dataset)
        if not isinstance(keys, ray.data.Dataset):
            raise ParquetBloomError(
                f"keys must be a Ray dataset, got {type(keys).__name__}: ray.data.from_arrow makes one"
            )
        source, listing = dataset.source, dataset.source.list_files()
        self._schema = Locator(source, dataset.schema, None, column, ScanOptions()).schema
        references, names = keys.to_arrow_refs(), keys.columns() or []
        asked = list_columns(column)
        if not set(asked) <= set(names) and len(asked) == len(names) == 1:
            names = names[:1]
        else:
            for name in asked:
                if name not in names:
                    raise UnknownColumnError(f"the keys have no such column, but {', '.join(names[:8])}", column=name)
            names = list(asked)
        few = None
        if source.index is not None and keys.count() <= INDEX_KEYS:
            few = _collect_keys(references, names, asked)
        self._entries = find_candidates(source, listing, column, few)
        self._table = listing.table
        self._search = _KeySearch(SentSource.of(source, listing), dataset.schema, column, references, names)

    def get_name(self) -> str:
        """Return the name that Ray shows."""
        return "ParquetBloomPositions"

    def estimate_inmemory_data_size(self) -> None:
        """Return None: how many rows have a key is not known."""

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        """Return at most so many tasks, each of some of the files, in their order; at least one."""
        tasks = []
        paths = [entry.path for entry in self._entries]
        for numbers in np.array_split(np.arange(len(paths)), max(1, min(parallelism, len(paths)))):
            files: Files = [paths[number] for number in numbers]
            metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=files, exec_stats=None)
            if self._table is not None:
                files = TablePart.of(self._table, numbers.tolist())
            search = partial(self._search.locate, files, self._schema)
            tasks.append(ReadTask(search, metadata, schema=self._schema, per_task_row_limit=per_task_row_limit))
        return tasks


@dataclass(frozen=True)
class _KeySearch:
    """What each task searches for.

    Attributes
    ----------
    source, schema : of the dataset.
    column : of the key.
    references : to tables of keys in Ray's object store.
    names : the columns of these tables that have the key.
    """

    source: SentSource
    schema: pa.Schema
    column: str | Sequence[str]
    references: Sequence[ray.ObjectRef]
    names: Sequence[str]

    def locate(self, files: Files, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the positions in some of the files; a table without rows at least."""
        keys = _collect_keys(self.references, self.names, list_columns(self.column))
        yield schema.empty_table()
        if keys.num_rows and files:
            options = ScanOptions(threads=1)
            locator = Locator(self.source.open(files), self.schema, None, self.column, options, counts=KeyCounts())
            yield from map(pa.Table.from_batches, zip(locator.read_batches(keys)))


def _collect_keys(references: Sequence[ray.ObjectRef], names: Sequence[str], asked: Sequence[str]) -> pa.Table:
    """Return the columns of the key, by the names that they have in the dataset, without rows that have nulls."""
    tables = [table.select(names).rename_columns(list(asked)) for table in ray.get(list(references)) if table.num_rows]
    return pa.concat_tables(tables).drop_null() if tables else pa.table({})
