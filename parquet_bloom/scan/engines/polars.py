"""Parquet and ORC files as a polars LazyFrame that reads only the row groups its filters need.

polars gives its source the predicate of a query. The part of it that can be translated (`polars_predicate`) selects the
row groups. polars filters the rows read by the whole predicate, so parts that cannot be translated cost only time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ...errors import ParquetBloomError, UnreadableColumnError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...predicate import tree
from ..compatibility import DatasetCompatibility
from ..options import ScanOptions
from ..read.reader import RowReader
from ..schema import fix_schema
from ..source import ScanSource
from . import polars_predicate

if TYPE_CHECKING:
    from ..plan.index import Index
    from ..plan.zone import Zones


def scan_polars(
    paths: Any,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    cache: MetadataCache | None = SHARED_CACHE,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
) -> Any:
    """Return Parquet and ORC files as a polars LazyFrame, whose filters select row groups by statistics and filters.

    Parameters
    ----------
    paths : a file, a folder, or a list of them, which are listed now, and their footers read for the schema. None for
        the live files of `index`.
    filesystem, storage_options, timezone, cache, partitioning : as in `prune`. With a cache the footers are read once,
        for schema and filters.
    index, zones : as in `prune`; each query uses them, and opens those that are given by their paths anew. If zones
        leave some rows of a row group, only the pages with these rows are read.

    Returns
    -------
    polars.LazyFrame
        The rows of all files in file order; columns that differ between files are promoted, and partition columns
        added, as in `read_table`. Filters, projections and leading slices are pushed down to the files. Every filter
        that polars pushes down is applied to the rows read; comparisons of a bare column with literals, under `&`,
        `|`, `~`, also select the row groups before.

    Raises
    ------
    ParquetBloomError
        As in `prune`; polars is not installed; or the files' columns do not fit into one schema.
    """
    source = ScanSource.resolve(paths, filesystem, storage_options, index, zones, partitioning, cache)
    return scan_source(*fix_schema(source), timezone)


def scan_source(source: ScanSource, schema: pa.Schema, timezone: str = "UTC") -> Any:
    """Return a dataset as a polars LazyFrame; see `scan_polars`.

    Parameters
    ----------
    source : the files.
    schema : of the rows.
    timezone : as in `prune`.
    """
    pl = import_polars()
    io_source = _Source(pl, source, schema, timezone)
    return pl.io.plugins.register_io_source(io_source.read_frames, schema=io_source.dtypes)


def import_polars() -> Any:
    """Return the polars package; raise ParquetBloomError if it is not installed."""
    try:
        import polars
        import polars.io.plugins
    except ImportError:
        raise ParquetBloomError("scan_polars needs polars 1.20 or newer, which is not installed") from None
    return polars


class _Source:
    """An IO source of polars that reads a dataset.

    Attributes
    ----------
    dtypes : polars' schema of the rows.
    """

    def __init__(self, pl: Any, source: ScanSource, schema: pa.Schema, timezone: str):
        self._pl = pl
        self._source = source
        self._schema = schema
        self._timezone = timezone
        names = schema.names
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UnreadableColumnError("polars cannot read two columns of one name", column=twice)
        self.dtypes = pl.from_arrow(schema.empty_table()).schema
        # The columns whose values polars sees as Arrow has them. A name with a dot may be a struct's leaf.
        self._exact = {field.name for field in schema if _is_comparable(field.type) and "." not in field.name}

    def read_frames(
        self, with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        """Read the rows that polars requests, in order; `batch_size`, a hint, is ignored."""
        names = self._schema.names if with_columns is None else with_columns
        empty = self._pl.DataFrame(schema=self.dtypes).select(names)  # polars needs one frame at least
        needed = [] if predicate is None else list(dict.fromkeys(predicate.meta.root_names()))
        if n_rows == 0 or self._is_never_true(predicate, needed):
            yield empty
            return
        columns = list(dict.fromkeys([*names, *needed])) or self._schema.names[:1]
        # A slice that comes with a predicate applies before it, to all rows: no row group may be skipped.
        read_all = predicate is None or n_rows is not None
        node = None if read_all else polars_predicate.translate(self._pl, predicate, self.dtypes, self._exact)
        trust = None if node is None else DatasetCompatibility.of(self._schema, sorted(tree.columns(node)))
        options = ScanOptions(self._timezone, named=lambda _: True, trust=trust)
        plan = self._source.plan(node, options)
        schema = pa.schema([self._schema.field(name) for name in columns])
        reader = RowReader(plan, columns, schema=schema, cache=self._source.cache, trust=trust)
        remaining = n_rows
        # The first rows are mostly few: nothing is read ahead of them.
        for batch in reader.read_batches(threads=None if n_rows is None else 1)[1]:
            frame = self._pl.from_arrow(batch)
            if remaining is not None:
                frame = frame.head(remaining)
                remaining -= len(frame)
            yield (frame if predicate is None else frame.filter(predicate)).select(names)
            if remaining == 0:
                break
        yield empty

    def _is_never_true(self, predicate: Any, needed: list[str]) -> bool:
        """Return whether a predicate without columns, as polars makes of an empty `is_in`, is false or null."""
        if predicate is None or needed:
            return False
        values = self._pl.select(predicate).to_series()
        return len(values) == 1 and not values[0]


_COMPARABLE = (
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_date32,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


def _is_comparable(arrow_type: pa.DataType) -> bool:
    """Return whether polars keeps the type's values, or those of its lists, as stored, and compares them exactly."""
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        arrow_type = arrow_type.value_type
    return any(test(arrow_type) for test in _COMPARABLE)
