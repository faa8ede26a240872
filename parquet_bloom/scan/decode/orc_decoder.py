"""An open ORC file, and the decoder of its row groups, with the methods of `RowGroupDecoder`.

pyarrow reads whole stripes. Current releases raise an error for timestamps that do not fit into its nanoseconds; older
ones wrap them, and the wrong values must not be returned. If few row groups of a stripe are selected, pyorc reads these
alone, seeking by the row index, if it is installed: flat columns only, of types that both libraries convert alike.
After any error pyarrow is used instead. Neither pyorc's predicates nor its filters are used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, cached_property
from itertools import groupby
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
from numpy.typing import NDArray

from ...errors import UnknownColumnError, UnreadableColumnError
from ...file.column_statistics import ColumnCompatibility
from ...file.metadata_cache import CachedFooter
from ...file.pages.row_group_batch import RowsOfGroups
from ...hashing.column_type import Kind
from ...orc import OrcFile
from ...orc.orc_verify import fits_nanoseconds
from ...predicate.pruning import PruningPredicate
from ...storage import Source
from ...util.arrow_values import empty_table, take_rows
from ..model.file_schemas import reading
from ..model.row_selection import RowSelection
from ..model.scan_plan import ORC
from ..plan.orc_level import find_distrusted
from ..scan_options import Limits

if TYPE_CHECKING:
    from typing import Self

    from ...orc.orc_schema import OrcLeaf
    from .row_group_decoder import Window

_DECODED_RATIO = 4  # of decoded to stored bytes of a stripe, a guess

_SLOWER = 12
"""Approximate cost of a value by pyorc, which makes Python objects, relative to pyarrow."""

_TYPES = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


class OrcData:
    """`DataFile` of an ORC file."""

    format = ORC

    def __init__(self, file: OrcFile):
        self.file = file
        self._last: tuple[int, tuple[str, ...], pa.Table] | None = None  # stripe, columns, and its rows

    @property
    def footers(self) -> Sequence[CachedFooter]:
        """None: what they say is not asked of ORC files."""
        return ()

    @property
    def is_local(self) -> bool:
        return self.source.path is not None

    def borrow(self, number: int) -> nullcontext[OrcData]:
        """Give this file, as the only one of those that are read together."""
        return nullcontext(self)

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def source(self) -> Source:
        return self.file.source

    @property
    def leaves(self) -> Sequence[OrcLeaf]:
        return self.file.leaves

    @property
    def row_groups(self) -> range:
        return range(len(self.file.row_groups))

    @cached_property
    def reader(self) -> po.ORCFile:
        return po.ORCFile(self.source.counted_arrow_file())

    @cached_property
    def schema(self) -> pa.Schema:
        with reading(self):
            schema = self.reader.schema
            assert schema.names is not None  # decodes them, which fails for names that are not UTF-8
            return schema

    def select_schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of columns or dotted leaves of structs; a name inside a list or map selects all of it."""
        known = self.schema.names
        for name in columns:
            if name not in known and name.split(".")[0] not in known:
                raise UnknownColumnError("no such column", path=self.path, column=name)
        keep_structs = not _has_unique_names(self.schema)
        selected = [_select_field(field, field.name, columns, keep_structs) for field in self.schema]
        return pa.schema([field for field in selected if field is not None], self.schema.metadata)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.row_groups[row_group].num_rows

    def find_stripe(self, row_group: int) -> int:
        return self.file.row_groups[row_group].stripe

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        return find_distrusted(self.file, [leaf.name for leaf in self.leaves], trust)

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        return [(0, self.num_rows_of(row_group))]

    def read_stripe(self, number: int, names: Sequence[str] | None) -> pa.Table:
        """Read columns of a stripe with pyarrow; the last stripe is cached for row groups read one by one."""
        key = () if names is None else tuple(names)
        if self._last is None or self._last[:2] != (number, key):
            self._last = None  # free its memory before the next one is read
            batch = self.reader.read_stripe(number, names)
            rows, expected = batch.num_rows, self.file.stripes[number].num_rows
            if rows != expected:
                raise UnreadableColumnError(f"cannot be read: stripe {number} has {rows} rows instead of {expected}")
            self._last = number, key, pa.table(batch)
        return self._last[2]

    def close(self) -> None:
        self._last = None
        self.__dict__.pop("reader", None)  # has a descriptor of its own
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OrcRowGroups:
    """Row groups of an ORC file, as `RowGroups` are those of Parquet files."""

    def __init__(self, data: OrcData, row_groups: Sequence[int]):
        self.members = [data.file.row_groups[row_group] for row_group in row_groups]
        self.numbers = [(0, row_group) for row_group in row_groups]
        self.num_rows: NDArray[np.int64] = np.array([member.num_rows for member in self.members], np.int64)
        self.total_rows = int(self.num_rows.sum())
        stripes = [data.file.stripes[number] for number in {member.stripe for member in self.members}]
        self._num_bytes = sum(stripe.data_length for stripe in stripes) * _DECODED_RATIO

    def find_first_row(self, group: int) -> int:
        """Return how many rows the file has before a row group."""
        return self.members[group].first_row

    def find_indexed(self, leaves: Sequence[object], least: int) -> list[int]:
        """Return no row groups: statistics of fewer rows are not looked at."""
        return []

    def estimate(
        self, some: Sequence[int], names: Sequence[str] | None, widths: Mapping[str, float]
    ) -> NDArray[np.float64]:
        """Estimate the memory that each of some row groups takes once it is decoded, with all of its stripe."""
        return np.full(len(some), self._num_bytes / len(self.members))


class OrcDecoder:
    """Decodes columns of row groups, as `RowGroupDecoder` does those of Parquet files.

    Parameters
    ----------
    data : the file.
    row_groups : their numbers.
    limits : how much is decoded at once; stripes are, however large they are.
    """

    WHOLE = "columns", "stripes of an ORC file"

    def __init__(self, data: OrcData, row_groups: Sequence[int], limits: Limits):
        self.groups = OrcRowGroups(data, row_groups)
        self.limits = replace(limits, max_bytes=None, is_streamed=False, part_bytes=1 << 62)
        self.ways: list[tuple[str, str]] = []
        self._data = data

    def read(
        self,
        names: Sequence[str] | None,
        schema: pa.Schema,
        rows: RowsOfGroups,
        known: Mapping[str, pa.Array | pa.ChunkedArray],
        window: Window | None = None,
    ) -> pa.Table:
        """Read columns of some rows; see `RowGroupDecoder.read`."""
        if not len(rows) or not len(schema):
            return empty_table(schema)
        known = known if len({*schema.names}) == len(schema) else {}
        rest = pa.schema([field for field in schema if field.name not in known])
        taken = iter(())
        if len(rest):
            self.ways = [self.WHOLE]
            every = np.flatnonzero(rows.counts).tolist()
            num_rows = self.groups.num_rows[every]
            with reading(self._data):
                tables = [
                    self._read_stripe(stripe, list(groups), rest)
                    for stripe, groups in groupby(every, lambda group: self.groups.members[group].stripe)
                ]
            table = pa.concat_tables(tables)
            if len(rows) < len(table):
                positions = rows.rows + np.repeat(np.cumsum(num_rows) - num_rows, rows.counts[every])
                table = take_rows(table, positions)
            taken = iter(table.columns)
        columns = [known[field.name] if field.name in known else next(taken) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def _read_stripe(self, number: int, groups: Sequence[int], schema: pa.Schema) -> pa.Table:
        """Read columns of row groups of a stripe, one row group after the other."""
        data = self._data
        stripe = data.file.stripes[number]
        ranges: list[tuple[int, int]] = []  # first row in the stripe, number of rows; neighbours are one
        for group in groups:
            member = self.groups.members[group]
            first = member.first_row - stripe.first_row
            if ranges and sum(ranges[-1]) == first:
                ranges[-1] = ranges[-1][0], ranges[-1][1] + member.num_rows
            else:
                ranges.append((first, member.num_rows))
        for leaf in data.leaves if _wraps_timestamps() else ():
            if leaf.path[0] in schema.names and _may_overflow(data.file, leaf, number):
                problem = "has timestamps that nanoseconds of 64 bits cannot count, or may have; leave the column out"
                raise UnreadableColumnError(problem, column=leaf.name)
        names = _list_names_to_read(data.schema, schema)
        data.file.require_readable(number, None if names is None else schema.names)
        few = sum(count for _, count in ranges) * _SLOWER <= stripe.num_rows
        if few and all(any(test(field.type) for test in _TYPES) for field in schema):
            rows = seek_rows(data.file, number, ranges, data.schema, schema)
            if rows is not None:
                return rows
        table = data.read_stripe(number, names)
        columns, start = [], 0
        for field in schema:  # both are in the file's order
            start = table.schema.names.index(field.name, start) + 1
            columns.append(table.column(start - 1))
        table = pa.Table.from_arrays(columns, schema=schema)
        return pa.concat_tables([table.slice(first, count) for first, count in ranges])

    def require_rows(self, groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Do nothing: the numbers of rows are checked as a stripe is read."""

    def forget_streams(self) -> None:
        """Do nothing: there are none."""

    def finish(self) -> tuple[int, int]:
        """Return no cost: it is counted by the file."""
        return 0, 0


def _select_field(field: pa.Field, path: str, names: Collection[str], keep_structs: bool) -> pa.Field | None:
    if path in names:
        return field
    if not any(name.startswith(path + ".") for name in names):
        return None
    if keep_structs or not pa.types.is_struct(field.type):
        return field
    children = (_select_field(child, f"{path}.{child.name}", names, keep_structs) for child in field.type)
    selected = [child for child in children if child is not None]
    return field.with_type(pa.struct(selected)) if selected else None


def _list_names_to_read(file_schema: pa.Schema, schema: pa.Schema) -> list[str] | None:
    """Return the names to give to pyarrow to read a schema by `OrcData.select_schema`; None for all columns."""
    if schema.equals(file_schema) or not _has_unique_names(file_schema):
        return None
    return [name for field in schema for name in _leaf_names(file_schema.field(field.name), field, field.name)]


def _leaf_names(file_field: pa.Field, field: pa.Field, path: str) -> Iterable[str]:
    if field.type == file_field.type:
        return [path]
    children = {child.name: child for child in file_field.type}
    return [name for child in field.type for name in _leaf_names(children[child.name], child, f"{path}.{child.name}")]


def _has_unique_names(schema: pa.Schema) -> bool:
    """Return whether every dotted name means one column, so that columns can be read by name."""

    def is_plain(fields: Collection[pa.Field]) -> bool:
        names = [field.name for field in fields]
        plain = len({*names}) == len(names) and all(name and "." not in name and "`" not in name for name in names)
        return plain and all(is_plain(list(field.type)) for field in fields if pa.types.is_struct(field.type))

    return is_plain(list(schema))


@cache
def _wraps_timestamps() -> bool:
    """Return whether this pyarrow wraps timestamps that nanoseconds of 64 bits cannot count."""
    new = pa.BufferOutputStream()
    po.write_table(pa.table({"t": pa.array([253_402_214_400], pa.timestamp("s"))}), new)  # 9999-12-31
    try:
        po.ORCFile(pa.BufferReader(new.getvalue())).read()
    except pa.ArrowException:
        return False
    return True


def _may_overflow(file: OrcFile, leaf: OrcLeaf, stripe: int) -> bool:
    """Return whether a stripe may contain a timestamp that nanoseconds of 64 bits cannot count."""
    if leaf.column_type.kind is not Kind.TIMESTAMP or leaf.column_type.physical != "INT96":
        return False
    return not fits_nanoseconds(file.stripe_statistics(leaf)[stripe])


def seek_rows(
    file: OrcFile, stripe: int, ranges: Sequence[tuple[int, int]], file_schema: pa.Schema, schema: pa.Schema
) -> pa.Table | None:
    """Read columns of ranges of a stripe with pyorc, one after the other; None if it is not installed, or cannot.

    Parameters
    ----------
    ranges : (first row in the stripe, number of rows).
    file_schema, schema : of all columns, and of those to read.
    """
    if file.row_index_stride == 0 or (pyorc := _pyorc()) is None:
        return None
    names = schema.names if _list_names_to_read(file_schema, schema) is not None else file_schema.names
    if len({*names}) < len(names):
        return None
    has_local_times = any(pa.types.is_timestamp(field.type) and field.type.tz is None for field in schema)
    if has_local_times and not file.is_in_utc(stripe):  # releases of ORC's library differ by a second around 1970
        return None
    if not file.seekable(stripe, schema.names):
        return None
    try:
        return _read(pyorc, file, stripe, ranges, schema)
    except (pyorc.ORCError, RuntimeError, UnicodeDecodeError, pa.ArrowException):  # of the library, about the file
        return None  # pyarrow reads it, or raises a better error


def _read(
    pyorc: ModuleType, file: OrcFile, stripe: int, ranges: Sequence[tuple[int, int]], schema: pa.Schema
) -> pa.Table | None:
    with file.source.counted_arrow_file() as opened:
        reader = pyorc.Reader(opened, column_names=schema.names, converters=_converters())
        if [*reader.selected_schema.fields] != schema.names:
            return None
        stripe_reader = reader.read_stripe(stripe)
        tables = []
        for first, count in ranges:
            stripe_reader.seek(first)
            rows = stripe_reader.read(count)
            if len(rows) != count:
                return None
            # zip would make an iterator for each of thousands of rows.
            columns = [_to_array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
            tables.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(tables)


def _to_array(values: list[object], arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_date32(arrow_type):
        return pa.array(values, pa.int32()).cast(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


@cache
def _pyorc() -> ModuleType | None:
    """Import pyorc, an optional dependency; None if it is not installed."""
    try:
        import pyorc
    except ImportError:
        return None
    return pyorc


class _AsStored:
    """Converter to days and nanoseconds: Python's own types cannot represent all dates and timestamps."""

    @staticmethod
    def from_orc(number: int, nanoseconds: int | None = None, timezone: object = None) -> int:
        return number if nanoseconds is None else number * 1_000_000_000 + nanoseconds

    @staticmethod
    def to_orc(*given: object) -> object:
        raise NotImplementedError


@cache
def _converters() -> dict[object, object]:
    pyorc = _pyorc()
    assert pyorc is not None
    kinds = pyorc.TypeKind
    return dict.fromkeys((kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_INSTANT), _AsStored)
