"""A dataset that prunes itself: a `pyarrow.dataset.Dataset` whose scanners read only what a filter needs.

DuckDB, polars, DataFusion and pyarrow hand the filter of a query to `scanner`, or to `get_fragments`, and rely on it:
the rows that come back are exactly those for which Arrow evaluates the filter to true. `predicate.parse.necessary`
finds the part of the filter that prunes; Arrow's own scanner evaluates the whole of it on the rows that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..predicate import parse
from ..predicate.arrow_expression import read_parts
from ..predicate.literal import from_collection
from ..predicate.map_lookup import find_evidence_columns
from ..predicate.necessary import FilterParts, read_filter
from ..predicate.tree import In
from ..util.arrow_values import has_kernels, keep, take, widen
from ..util.lazy import late_module
from ..util.threads import inside_arrow, stop_at_exit
from .compatibility import DatasetCompatibility
from .model.scan_plan import ScanPlan
from .model.split_plan import split_plan
from .plan_report import PruneReport
from .row_reader import RowReader
from .scan import Scan
from .scan_options import ScanOptions
from .scan_source import ScanSource, fix_row_schema

if TYPE_CHECKING:
    import os

    import polars as pl

    from ..tables.table_snapshot import Table
    from ..util.given_types import DatasetSource, FileSystem, Predicate, RowKeys, Rows, Values
    from . import polars_frame
    from .lookup import key_lookups
    from .plan.index_level import Index
    from .plan.zone_level import Zones
else:
    key_lookups = late_module("parquet_bloom.scan.lookup.key_lookups")
    polars_frame = late_module("parquet_bloom.scan.polars_frame")

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
"""A projection as pyarrow's scanners take it."""

Indices: TypeAlias = Sequence[int] | NDArray[np.integer] | pa.Array
"""Positions of rows."""


class ScannerOptions(TypedDict, total=False):
    """Options of pyarrow's scanners."""

    batch_size: int
    batch_readahead: int
    fragment_readahead: int
    fragment_scan_options: ds.FragmentScanOptions
    use_threads: bool
    cache_metadata: bool
    memory_pool: pa.MemoryPool


_BATCH_ROWS = 131_072  # pyarrow's own default


class Dataset(ds.UnionDataset):  # type: ignore[misc]
    """Files of a lake as one dataset. Every scan lists the files anew, and reads only what its filter needs.

    It is a `pyarrow.dataset.Dataset`, for engines; `scan` gives rows by this package's own predicates. Its schema is
    fixed when it is made: a file that is added later is read as far as its columns fit, and columns that no file had
    then are left out.

    Attributes
    ----------
    schema : of the rows, partition columns last.
    """

    def __init__(self, source: ScanSource, schema: pa.Schema, condition: pc.Expression | None = None):
        # Everything that the base class offers is defined below. What hands a dataset to Arrow's compiled code alone,
        # such as `pyarrow.dataset.Scanner.from_dataset`, gets a dataset whose scan is an error, for it cannot call us.
        super().__init__(schema, [_make_unreadable(schema)])
        self._source = source
        self._arrow_schema = schema
        self._condition = condition

    @classmethod
    def open(cls, source: ScanSource, schema: pa.Schema | None = None) -> Dataset:
        """Open a dataset; see `parquet_bloom.dataset`."""
        source, schema = fix_row_schema(source, schema)
        return cls(source, schema)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._source, self._arrow_schema, self._condition)

    def __repr__(self) -> str:
        return f"<parquet_bloom.Dataset of {self._source.table or self._source.paths!r}>"

    @property
    def schema(self) -> pa.Schema:
        return self._arrow_schema

    @property
    def source(self) -> ScanSource:
        """The files, and how they are planned and shown."""
        return self._source

    @property
    def files(self) -> list[str]:
        """The files as they are listed now."""
        return [entry.path for entry in self._source.list_files().entries]

    @property
    def table(self) -> Table | None:
        """The Delta or Iceberg table whose files these are; None for other files."""
        return self._source.find_table()

    @property
    def children(self) -> list[ds.Dataset]:
        """No datasets: the files are listed for each scan."""
        return []

    @property
    def partition_expression(self) -> pc.Expression:
        return pc.scalar(True)

    def scan(
        self,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        *,
        timezone: str = "UTC",
        dialect: str | None = None,
        case_sensitive: bool = True,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_error: Callable[[ParquetBloomError], None] | Literal["raise"] = "raise",
    ) -> Scan:
        """Return a scan of the rows that match a predicate, which is planned and read by its methods.

        Parameters
        ----------
        where : SQL text (`"user_id = 42 AND day IN ('a', 'b')"`), pyarrow's `filters=` lists, a pyarrow expression, or
            a predicate tree; None for all rows.
        columns : top-level columns of the result, in this order, or dotted leaves; None for all.
        timezone : zone of timestamps written without one, where a column holds instants.
        dialect : of SQL text: "spark", or another one that sqlglot knows (extra `dialects`); None for generic SQL.
        case_sensitive : False to match column names whatever their case.
        threads : files planned, and row groups read, concurrently; None for what suits where they are stored.
        progress : called with (done, in all) after each file that is planned, and again after each that is read.
        on_error : called with the error of a file that cannot be read, which is then left out; "raise" to raise it.

        Raises
        ------
        PredicateError
            The predicate cannot be parsed.

        Examples
        --------
        >>> scan = parquet_bloom.dataset("lake").scan("id = 1401181143", ["id", "country"])
        >>> scan.to_arrow().to_pylist()
        [{'id': 1401181143, 'country': 'pl'}]
        """
        node = None if where is None else parse(where, dialect=dialect)
        if self._condition is not None:
            raise ParquetBloomError("a dataset that was filtered has no scans of its own; scan the dataset itself")
        if on_error != "raise" and not callable(on_error):
            raise ParquetBloomError(f"on_error must be 'raise' or a function of the error, got {on_error!r}")
        if threads is not None and threads < 1:
            raise ParquetBloomError(f"threads must be at least 1, got {threads}")
        handler = None if on_error == "raise" else on_error
        options = ScanOptions(timezone, not case_sensitive, threads, progress, handler)
        return Scan(self._source, node, columns, options, self._arrow_schema)

    def get(
        self,
        column: str | Sequence[str],
        keys: RowKeys,
        columns: Sequence[str] | None = None,
        *,
        timezone: str = "UTC",
        threads: int | None = None,
    ) -> pa.Table:
        """Read the rows with one key or with many.

        With an index, what it says is used without asking the other files. The index and what is known of files stays
        in memory between calls; files that were added, replaced or removed are noticed at each call. Only of a dataset
        that is a `LakeIndex` itself the files are those as of its opening, or of its last `refresh`.

        Parameters
        ----------
        column : of the key; or a list of columns, whose values together are the key.
        keys : a value, or a list, Arrow or NumPy array or Series of values; for several columns a tuple, a list of
            tuples, or a table with these columns. They are compared as literals of a predicate are: 0.0 and -0.0 are
            one key, and so are all NaN, so that whoever gives both zeros gives a key twice.
        columns : of the result, as for `scan`.
        timezone, threads : as for `scan`.

        Returns
        -------
        pyarrow.Table
            All rows of the first key in the order of files, then those of the second one, and so on: a key that is
            given twice has its rows twice, and one that no row has none.

        Raises
        ------
        PredicateError
            A key is null, or cannot be compared with the column.
        UnknownColumnError
            There is no such column.

        Examples
        --------
        >>> parquet_bloom.dataset("lake").get("id", [1401181143], ["country"]).to_pylist()
        [{'country': 'pl'}]
        """
        return self._lookups.get(column, keys, columns, timezone=timezone, threads=threads)

    def locate(
        self,
        column: str | Sequence[str],
        keys: RowKeys | os.PathLike[str],
        *,
        timezone: str = "UTC",
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> pa.Table:
        """Find the physical positions of all rows with any of some keys, of which there may be any number.

        Positions are exact: the values are compared. Rows that a table has deleted are left out. Beyond a million keys
        (100,000 of several columns), the lake is searched once for each so many of them, and those that are not
        searched for yet are in a temporary file.

        Parameters
        ----------
        column, timezone, threads : as for `get`.
        keys : as for `get`; also a `pyarrow.RecordBatchReader`, table or DataFrame with these columns, or a
            `pathlib.Path` of a Parquet file that has them, which are read in batches. Keys that are given
            twice are so only once.
        progress : called with (done, in all) after each file that is read. The files of one search are added to those
            of the searches before it.

        Returns
        -------
        pyarrow.Table
            `key` (the row's value; a struct for several columns), `path` (as listed, or as a `file:` URI if it is not
            UTF-8), `row_group`, and `row`: its number in the file, from 0 through all row groups. In the order of files
            and rows.

        Raises
        ------
        PredicateError
            A key is null, or cannot be compared with the column, or the column has no single values.
        UnknownColumnError
            There is no such column.

        Examples
        --------
        >>> parquet_bloom.dataset("lake").locate("id", 1401181143).to_pylist()
        [{'key': 1401181143, 'path': 'lake/day=2026-01-30/a.parquet', 'row_group': 0, 'row': 7}]
        """
        return self._lookups.make_locator(column, timezone, threads, progress).read_table(keys)

    def locate_batches(
        self,
        column: str | Sequence[str],
        keys: RowKeys | os.PathLike[str],
        *,
        timezone: str = "UTC",
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> pa.RecordBatchReader:
        """Find positions as `locate` does, as a stream.

        Of more keys than are searched for at once, the positions of some come after those of others: only these are in
        the order of files and rows. `parquet_bloom.tables.write_positions` writes them into a file.
        """
        return self._lookups.locate_batches(column, keys, timezone=timezone, threads=threads, progress=progress)

    @cached_property
    def _lookups(self) -> key_lookups.KeyLookups:
        """Lookups of keys, which keep the index open between calls."""
        if self._condition is not None:
            raise ParquetBloomError("a dataset that was filtered has no lookups of its own; use the dataset itself")
        return key_lookups.KeyLookups(self._source, self._arrow_schema)

    def to_polars(self) -> pl.LazyFrame:
        """Return the dataset as a polars LazyFrame, whose filters prune; see `scan_polars`."""
        if self._condition is not None:  # which polars cannot take over: it is an expression of Arrow's
            return polars_frame.import_polars().scan_pyarrow_dataset(self)
        return polars_frame.scan_source(self._source, self._arrow_schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scanner().to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    # --------------------------------------------------------------------------- the interface of pyarrow's datasets

    def scanner(
        self, columns: Columns = None, filter: pc.Expression | None = None, **options: Unpack[ScannerOptions]
    ) -> ds.Scanner:
        """Return a scanner of the rows for which Arrow evaluates a filter to true; see `pyarrow.dataset.Dataset`."""
        query = _Query.make(self._source, self._arrow_schema, _join(self._condition, filter))
        return query.scanner(query.plan, columns, **options)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:
        """Plan a scan with a filter, and yield each file that is read as a fragment of its selected row groups.

        If no file is read, there is one fragment without rows: DataFusion cannot plan a query over none.
        """
        query = _Query.make(self._source, self._arrow_schema, _join(self._condition, filter))
        plan = query.plan()
        selected = [file for file in plan.files if file.selected] or plan.files[:1]
        for file in selected:
            yield Fragment(query, replace(plan, files=[file]))
        if not selected:
            yield Fragment(query, plan)

    def split(self, num_parts: int, filter: pc.Expression | None = None) -> list[Fragment]:
        """Plan a scan with a filter, and return what is read as at most so many fragments; see `Scan.split`."""
        query = _Query.make(self._source, self._arrow_schema, _join(self._condition, filter))
        plan = query.plan()
        return Fragment(replace(query, source=query.source.without_files()), plan).split(num_parts)

    def to_table(
        self, columns: Columns = None, filter: pc.Expression | None = None, **options: Unpack[ScannerOptions]
    ) -> pa.Table:
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(
        self, columns: Columns = None, filter: pc.Expression | None = None, **options: Unpack[ScannerOptions]
    ) -> Iterator[pa.RecordBatch]:
        return self.scanner(columns, filter, **options).to_batches()

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Unpack[ScannerOptions],
    ) -> pa.Table:
        return self.scanner(columns, filter, **options).head(num_rows)

    def take(
        self,
        indices: Indices,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Unpack[ScannerOptions],
    ) -> pa.Table:
        return _take_rows(self.scanner(columns, filter, **options), indices)

    def count_rows(self, filter: pc.Expression | None = None, **options: Unpack[ScannerOptions]) -> int:
        """Count the rows for which a filter is true; without one, from the footers alone."""
        if filter is None and self._condition is None:
            return Scan(self._source, None, None, ScanOptions()).count_rows()
        return int(self.scanner([], filter, **options).count_rows())

    def filter(self, expression: pc.Expression) -> Dataset:
        if not isinstance(expression, pc.Expression):
            raise ParquetBloomError(f"a filter must be a pyarrow expression, got {type(expression).__name__}; see scan")
        return type(self)(self._source, self._arrow_schema, _join(self._condition, expression))

    def replace_schema(self, schema: pa.Schema) -> Dataset:
        """Return the dataset with another schema, to which its files' columns are cast."""
        columns = self._source.partition_columns
        source = self._source if columns is None else self._source.with_partitions(columns.names, schema)
        return type(self)(source, schema, self._condition)

    def join(self, right_dataset: ds.Dataset, *arguments: object, **options: object) -> ds.InMemoryDataset:
        """Join the rows, read into memory, with another dataset; see `pyarrow.dataset.Dataset.join`."""
        return ds.InMemoryDataset(self.to_table()).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: ds.Dataset, *arguments: object, **options: object) -> ds.InMemoryDataset:
        """Join the rows, read into memory, with another dataset; see `pyarrow.dataset.Dataset.join_asof`."""
        return ds.InMemoryDataset(self.to_table()).join_asof(_in_memory(right_dataset), *arguments, **options)

    def sort_by(self, sorting: str | Sequence[tuple[str, str]], **options: object) -> ds.InMemoryDataset:
        """Sort the rows, read into memory."""
        table = self.to_table()
        sort_keys = [(sorting, "ascending")] if isinstance(sorting, str) else sorting
        order = pc.sort_indices(widen(table.select([name for name, _ in sort_keys])), sort_keys, **options)
        return ds.InMemoryDataset(take(table, order.to_numpy()))

    def _get_fragments(self, filter: pc.Expression | None) -> Iterator[Fragment]:
        return self.get_fragments(filter)

    def _scanner_options(self, options: ScannerOptions) -> ScannerOptions:
        return options

    @property
    def _scan_options(self) -> dict[str, object]:
        return {}


class Fragment(ds.Fragment):  # type: ignore[misc]
    """A file of a dataset, as far as a filter selected its row groups; `Dataset.split` puts several into one."""

    def __init__(self, query: _Query, plan: ScanPlan):
        # As for Dataset: the base class has no constructor to call.
        self._query = query
        self._plan = plan  # of its files alone, or of none

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._query, self._plan)

    def plan(self) -> ScanPlan:
        """Return the plan of its files."""
        return self._plan

    @property
    def filter(self) -> pc.Expression | None:
        """Which rows of the selected row groups there are; None for all."""
        return self._query.filter

    @property
    def path(self) -> str:
        """Path of the first file; empty if the dataset has no files."""
        return self._plan.files[0].path if self._plan.files else ""

    @property
    def row_groups(self) -> list[int]:
        """Ordinals of the row groups that are read of the first file."""
        return list(self._plan.files[0].selected) if self._plan.files else []

    @property
    def physical_schema(self) -> pa.Schema:
        return self._query.schema

    @property
    def partition_expression(self) -> pc.Expression:
        return pc.scalar(True)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Unpack[ScannerOptions],
    ) -> ds.Scanner:
        """Return a scanner of the rows of this file for which a filter is true, besides the one that selected it."""
        query = self._query
        is_known = filter is None or (query.filter is not None and query.filter.equals(filter))
        if not is_known or (schema is not None and not schema.equals(query.schema)):
            joined = query.filter if is_known else _join(query.filter, filter)
            # The plan is still the first filter's, and so is the evidence that it must not trust.
            other = _Query.make(query.source, query.schema if schema is None else schema, joined)
            query = replace(other, trust=query.trust, threads=query.threads)
        return query.scanner(lambda: self._plan, columns, **options)

    def split(self, num_parts: int) -> list[Fragment]:
        """Split what is read into at most so many fragments; see `Scan.split`."""
        return [
            Fragment(replace(self._query, threads=threads), plan) for plan, threads in split_plan(self._plan, num_parts)
        ]

    def to_table(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Unpack[ScannerOptions],
    ) -> pa.Table:
        return self.scanner(schema, columns, filter, **options).to_table()

    def to_batches(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Unpack[ScannerOptions],
    ) -> Iterator[pa.RecordBatch]:
        return self.scanner(schema, columns, filter, **options).to_batches()

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Unpack[ScannerOptions],
    ) -> pa.Table:
        return self.scanner(None, columns, filter, **options).head(num_rows)

    def take(
        self,
        indices: Indices,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Unpack[ScannerOptions],
    ) -> pa.Table:
        return _take_rows(self.scanner(None, columns, filter, **options), indices)

    def count_rows(self, filter: pc.Expression | None = None, **options: Unpack[ScannerOptions]) -> int:
        return int(self.scanner(None, [], filter, **options).count_rows())

    def __repr__(self) -> str:
        return f"<parquet_bloom.Fragment {self.path!r}, row groups {self.row_groups}>"


@dataclass(frozen=True)
class _Query:
    """A filter over a dataset.

    Attributes
    ----------
    source, schema : of the dataset.
    filter : in Arrow's expressions; None for all rows.
    parts : of the filter.
    trust : where the dataset shows the filter's columns as other values than files store.
    threads : that read; None for as many as suit where the files are.
    """

    source: ScanSource
    schema: pa.Schema
    filter: pc.Expression | None
    parts: FilterParts
    trust: DatasetCompatibility | None
    threads: int | None = None

    @classmethod
    def make(cls, source: ScanSource, schema: pa.Schema, filter: pc.Expression | None) -> _Query:
        """Read the parts of a filter."""
        if filter is not None and not isinstance(filter, pc.Expression):
            raise ParquetBloomError(f"a filter must be a pyarrow expression, got {type(filter).__name__}; see scan")
        parts = FilterParts() if filter is None else read_filter(filter, schema)
        names = [] if parts.condition is None else sorted(find_evidence_columns(parts.condition))
        return cls(source, schema, filter, parts, DatasetCompatibility.of(schema, names) if names else None)

    def plan(self) -> PruneReport:
        """List the files, and plan the scan of those that the filter needs."""
        return self.source.plan(self.parts.condition, ScanOptions(named=lambda _: True, trust=self.trust))

    def scanner(self, plan: Callable[[], ScanPlan], columns: Columns, **options: Unpack[ScannerOptions]) -> ds.Scanner:
        """Return a scanner of the rows of a plan, which is made when the first rows are requested."""
        options.setdefault("batch_size", _BATCH_ROWS)
        batch_size = options["batch_size"]
        names = self._columns_to_read(columns)
        schema = pa.schema([self.schema.field(name) for name in names], self.schema.metadata)

        def read_batches() -> Generator[pa.RecordBatch, None, None]:
            with inside_arrow():
                options = ScanOptions(trust=self.trust, threads=self.threads)
                reader = RowReader(plan(), names, schema=schema, cache=self.source.cache, options=options)
                batches = reader.read_batches(batch_size)[1]
            with closing(batches):
                while True:
                    with inside_arrow():
                        batch = next(batches, None)
                    if batch is None:
                        return
                    yield batch

        rows, remaining = read_batches(), self.filter
        if remaining is not None and not all(map(has_kernels, schema.types)):
            rows, remaining = _keep_matching(rows, remaining), None
        stream = pa.RecordBatchReader.from_batches(schema, stop_at_exit(rows))
        return ds.Scanner.from_batches(stream, columns=columns, filter=remaining, **options)

    def _columns_to_read(self, columns: Columns) -> list[str]:
        """Return the top-level columns of a projection and of the filter, in the schema's order."""
        schema_names = self.schema.names
        used = [self.parts.columns]
        if isinstance(columns, Mapping):
            used += [read_filter(expression, self.schema).columns for expression in columns.values()]
        elif columns is not None:
            used.append({name if name in schema_names else name.partition(".")[0] for name in columns})
        if columns is None or any(names is None for names in used):
            return list(schema_names)
        needed = set().union(*(names for names in used if names is not None))
        # At least one column, whose rows can be counted.
        return [name for name in schema_names if name in needed] or schema_names[:1]


def _keep_matching(
    batches: Generator[pa.RecordBatch, None, None], filter: pc.Expression
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows for which Arrow evaluates a filter to true, with columns that its scanners cannot filter.

    Arrow compares views with views alone, and has no `is_in` for them: if the filter has none, it sees plain texts.
    """
    has_views = not all(map(has_kernels, read_parts(filter)[1].schema.types))
    with closing(batches):
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            rows = rows if has_views else widen(rows)
            scanner = ds.Scanner.from_batches(rows.to_batches(), schema=rows.schema, columns={"is_kept": filter})
            kept = keep(batch, scanner.to_table()["is_kept"])
            if kept.num_rows:
                yield kept


def _take_rows(scanner: ds.Scanner, indices: Indices) -> pa.Table:
    if all(map(has_kernels, scanner.projected_schema.types)):
        return scanner.take(indices)
    return take(scanner.to_table(), np.asarray(indices, np.int64))


_REFUSAL = "parquet_bloom datasets are read by their own methods, such as scanner() and to_table()"


def _make_unreadable(schema: pa.Schema) -> ds.Dataset:
    """Return a dataset of a schema, of which every scan fails with an error that says what to do."""
    file_format, local = ds.ParquetFileFormat(), pa.fs.LocalFileSystem()
    fragment = file_format.make_fragment(_REFUSAL, local)
    return ds.FileSystemDataset([fragment], schema, file_format, local)


def _join(first: pc.Expression | None, second: pc.Expression | None) -> pc.Expression | None:
    return second if first is None else first if second is None else first & second


def _in_memory(dataset: ds.Dataset) -> ds.Dataset:
    return ds.InMemoryDataset(dataset.to_table()) if isinstance(dataset, Dataset) else dataset


def dataset(
    source: DatasetSource | None,
    *,
    index: Index | None = None,
    zones: Zones | None = None,
    partitioning: Literal["hive"] | None = "hive",
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    cache: MetadataCache | None = SHARED_CACHE,
    schema: pa.Schema | None = None,
    variant: Literal["json"] | None = None,
) -> Dataset:
    """Open the files of a lake as one dataset, which every engine can query and which reads only what a query needs.

    Parameters
    ----------
    source : a file, a folder, a pattern, or a list of them: local paths, or URLs of object stores (`s3://`, `gs://`,
        `az://`, `abfss://`) or web servers (`https://`); or a `LakeIndex`, for its live files. None for those of
        `index`. Parquet and ORC files may be mixed: the format is recognised by a file's last bytes.
    index, zones, partitioning, filesystem, storage_options, cache : as in `prune`.
    schema : of the rows; None for the unified schema of all files, whose footers are read now, and with an index for
        that of its first file. INT96 timestamps are shown in nanoseconds, as by pyarrow, and one that these cannot
        count (before 1677, after 2262) is an error; with a schema that has timestamps, but none in nanoseconds, they
        are shown in microseconds, without fractions of these.
    variant : "json" for Variants as JSON texts; None for structs of binary columns, as pyarrow gives them.

    Returns
    -------
    Dataset
        A `pyarrow.dataset.Dataset`: pass it to DuckDB, polars or DataFusion, or call its `scan`. The files are listed
        anew for each query, so that files that were added, replaced or removed are seen; the schema stays.

    Raises
    ------
    ParquetBloomError
        There are no files, a file cannot be read, or the files' columns do not fit into one schema.

    Examples
    --------
    >>> scan = parquet_bloom.dataset("lake").scan("id = 1401181143", ["id", "country"])
    >>> scan.to_arrow().to_pylist()
    [{'id': 1401181143, 'country': 'pl'}]
    >>> len(parquet_bloom.dataset("lake").files)
    4
    """
    files = ScanSource(source, filesystem, storage_options, index, zones, partitioning, cache, variant=variant)
    return Dataset.open(files.resolve(), schema)


def require_dataset(value: object) -> None:
    """Raise ParquetBloomError if an argument is not a dataset."""
    if not isinstance(value, Dataset):
        raise ParquetBloomError(f"give a dataset, as parquet_bloom.dataset returns, got {type(value).__name__}")


def semi_join(dataset: Dataset, keys: Values | Rows, on: str) -> Scan:
    """Return a scan of the rows of a dataset whose key is one of some keys: one side of a join, pruned by the other.

    Parameters
    ----------
    dataset : the large side.
    keys : the keys of the small side: an Arrow array or column, a pandas or polars Series, or any collection; or a
        table, data frame, stream or scan with a column of the same name.
    on : the key's column in the dataset.

    Raises
    ------
    PredicateError
        The keys are not values that a predicate can have.
    ParquetBloomError
        The first argument is not a dataset, or the table has no such column.

    Examples
    --------
    >>> lake = parquet_bloom.dataset("lake")
    >>> parquet_bloom.semi_join(lake, [1401181143, -1], on="id").count_rows()
    1
    """
    require_dataset(dataset)
    if hasattr(keys, "__arrow_c_stream__") and not hasattr(keys, "__len__"):
        keys = pa.table(keys)  # a stream of rows, such as another scan's
    names = getattr(keys, "column_names", getattr(keys, "columns", None))
    if names is not None:
        if on not in list(names):
            raise ParquetBloomError(f"the table of keys has no column {on!r}")
        frame: Any = keys  # of any library
        keys = frame[on]
        if hasattr(keys, "columns"):  # DuckDB's are relations, too
            keys = pa.table(keys)[on]
    return dataset.scan(In(on, from_collection(keys)))
