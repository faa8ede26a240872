"""Parquet and ORC files as a polars LazyFrame that reads only the row groups its filters need.

polars gives its source the predicate of a query. The part of it that `translate` knows selects the
row groups. polars filters the rows read by the whole predicate, so parts that cannot be translated cost only time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ..errors import ParquetBloomError, UnreadableColumnError
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..predicate import literal, tree
from ..predicate.patterns import escape_like
from ..predicate.subject import Subject
from ..predicate.tree import (
    Compare,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    all_of,
    any_of,
)
from .compatibility import DatasetCompatibility
from .row_reader import RowReader
from .scan_options import ScanOptions
from .scan_source import ScanSource, fix_schema

if TYPE_CHECKING:
    from ..util.given_types import DatasetSource, FileSystem
    from .plan.index_level import Index
    from .plan.zone_level import Zones


# polars' names of comparisons of a column with a literal, with a list of literals (none null), and with nothing.
# Operators that are not here are unsupported.
_COMPARISONS: dict[str, Callable[[str, Any], Node]] = {
    "Eq": Equal,
    "NotEq": NotEqual,
    "Lt": lambda column, value: Compare(column, "<", value),
    "LtEq": lambda column, value: Compare(column, "<=", value),
    "Gt": lambda column, value: Compare(column, ">", value),
    "GtEq": lambda column, value: Compare(column, ">=", value),
}
_MEMBERSHIPS: dict[str, Callable[[str, tuple[Any, ...]], Node]] = {
    "IsIn": In,
    "IsNotIn": NotIn,
}
_STATES: dict[str, Callable[[str], Node]] = {
    "IsNull": IsNull,
    "IsNotNull": IsNotNull,
}

_OPPOSITE = {"Eq": "NotEq", "NotEq": "Eq", "Lt": "GtEq", "GtEq": "Lt", "Gt": "LtEq", "LtEq": "Gt"}
_OPPOSITE |= {"IsNull": "IsNotNull", "IsNotNull": "IsNull", "IsIn": "IsNotIn"}
_SWAPPED = {"Eq": "Eq", "NotEq": "NotEq", "Lt": "Gt", "Gt": "Lt", "LtEq": "GtEq", "GtEq": "LtEq"}
_CALLS = {"Lowercase": "lower", "Uppercase": "upper"}
_PIECES = {"StartsWith": "{}%", "EndsWith": "%{}", "Contains": "%{}%"}
_ANY = {"And": False, "LogicalAnd": False, "Or": True, "LogicalOr": True}
_BETWEEN = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}


def translate(pl: Any, predicate: Any, dtypes: Mapping[str, Any], columns: Collection[str]) -> Node | None:
    """Return a predicate that is true wherever polars' is; None if no part of it is supported.

    Parameters
    ----------
    pl : the module polars.
    predicate : polars expression.
    dtypes : polars' type of each column.
    columns : the columns whose values polars sees as the files store them.
    """
    try:
        root, literals = _parse(pl, predicate)
        return _Translation(pl, dtypes, columns, literals).node(root, False)
    except Exception:  # polars does not document this format: what cannot be parsed is unsupported
        return None


def _parse(pl: Any, predicate: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the tree of an expression, and its literals as Series, which the tree has by their numbers.

    Literals are not taken from the text: polars reads floats from it with an error in the last place, and writes NaN
    and the infinities as null. Where literals that differ have one text, their place in the list is None.
    """
    found: dict[str, Any] = {}
    pending = [predicate]
    while pending:
        expression = pending.pop()
        inputs = expression.meta.pop()
        pending.extend(inputs)
        if not inputs and expression.meta.is_literal():
            text = expression.meta.serialize(format="json")
            values = pl.select(expression).to_series()
            found[text] = values if _are_identical(found.setdefault(text, values), values) else None
    text = predicate.meta.serialize(format="json")
    for number, part in enumerate(found):
        text = text.replace(part, json.dumps({"Literal": number}))
    return json.loads(text), list(found.values())


def _are_identical(first: Any, second: Any) -> bool:
    """Return whether two literals are the same; `Series.equals` takes 0.0 and -0.0 for the same, and 1 and 1.0."""
    if first is None or second is None:
        return False
    return first is second or (first.dtype == second.dtype and repr(first.to_list()) == repr(second.to_list()))


class _Translation:
    def __init__(self, pl: Any, dtypes: Mapping[str, Any], columns: Collection[str], literals: Sequence[Any]):
        self._pl = pl
        self._dtypes = dtypes
        self._columns = columns
        self._literals = literals

    def node(self, item: dict[str, Any], negated: bool) -> Node | None:
        """Translate one expression, or its negation."""
        [(kind, body)] = item.items()
        if kind == "Column" and isinstance(self._dtypes.get(body), self._pl.Boolean):
            return Equal(body, not negated) if body in self._columns else None
        if kind == "BinaryExpr":
            return self._binary(body["op"], body["left"], body["right"], negated)
        if kind == "Function" and isinstance(body["function"], dict) and "Boolean" in body["function"]:
            return self._function(body["function"]["Boolean"], body["input"], negated)
        if kind == "Function" and isinstance(body["function"], dict) and "StringExpr" in body["function"]:
            return self._match_text(body["function"]["StringExpr"], body["input"], negated)
        if kind == "Function" and set(body["function"].get("ListExpr", ())) == {"Contains"}:
            item, value = body["input"]
            return self._contains(item, value, negated)
        return None

    def _binary(self, operator: str, left: dict[str, Any], right: dict[str, Any], negated: bool) -> Node | None:
        if operator in _ANY:
            parts = [self.node(left, negated), self.node(right, negated)]
            supported = [part for part in parts if part is not None]
            if _ANY[operator] != negated:
                return any_of(supported) if len(supported) == len(parts) else None
            return all_of(supported) if supported else None
        if "Literal" in left or "Alias" in left:
            operator, left, right = _SWAPPED.get(operator, ""), right, left
        return self._comparison(operator, left, right, negated)

    def _function(self, function: Any, items: list[dict[str, Any]], negated: bool) -> Node | None:
        name, options = next(iter(function.items())) if isinstance(function, dict) else (function, {})
        if name == "Not":
            return self.node(items[0], not negated)
        if name == "IsBetween":
            low, high = _BETWEEN[options["closed"]]
            parts = [
                self._comparison(*part, negated) for part in ((low, items[0], items[1]), (high, items[0], items[2]))
            ]
            supported = [part for part in parts if part is not None]
            if negated:
                return any_of(supported) if len(supported) == len(parts) else None
            return all_of(supported) if supported else None
        if name == "IsIn":
            return self._membership(items[0], items[1], negated, options["nulls_equal"])
        column = self._column(items[0])
        state = _STATES.get(_OPPOSITE.get(name, "") if negated else name)
        return None if column is None or state is None else state(column)

    def _comparison(self, operator: str, item: dict[str, Any], value: dict[str, Any], negated: bool) -> Node | None:
        call = self._call(item)
        if call is not None:
            values = self._values(value)
            is_text = values is not None and len(values) == 1 and values.dtype == self._pl.String
            if operator not in ("Eq", "NotEq") or not is_text or values.null_count():
                return None
            return call.compare("=" if (operator == "Eq") != negated else "<>", literal.from_collection(values)[0])
        column = self._column(item)
        compare = _COMPARISONS.get(_OPPOSITE.get(operator, "") if negated else operator)
        if column is None or compare is None:
            return None
        values = self._values(value)
        if values is None or len(values) != 1 or not self._compares_exactly(column, values.dtype):
            return None
        return compare(column, literal.from_collection(values)[0])

    def _membership(self, item: dict[str, Any], value: dict[str, Any], negated: bool, nulls_equal: bool) -> Node | None:
        call = self._call(item)
        column = self._column(item) if call is None else call.name
        member = _MEMBERSHIPS.get(_OPPOSITE["IsIn"] if negated else "IsIn")
        if column is None or member is None:
            return None
        values = self._values(value)
        if values is not None and isinstance(values.dtype, self._pl.List):
            values = values.explode() if len(values) == 1 else None
        if values is None or not (
            self._compares_exactly(column, values.dtype) if call is None else values.dtype == self._pl.String
        ):
            return None
        if nulls_equal and (negated or values.null_count()):
            return None
        # In polars, unlike in SQL, a null in the list makes no comparison null.
        literals = literal.from_collection(values.drop_nulls())
        if call is not None:
            return tree.negation(call.is_in(literals)) if negated else call.is_in(literals)
        return member(column, literals)

    def _match_text(self, function: Any, items: list[dict[str, Any]], negated: bool) -> Node | None:
        """Translate a match with a piece of text, or what is necessary for one with an expression, which is Rust's."""
        name, options = next(iter(function.items())) if isinstance(function, dict) else (function, {})
        is_expression = name == "Contains" and not options.get("literal")
        pattern = None if is_expression and negated else _PIECES.get(name)
        values = self._values(items[1]) if pattern is not None and len(items) == 2 else None
        if values is None or len(values) != 1 or values.null_count() or values.dtype != self._pl.String:
            return None
        subject = self._call(items[0])
        if subject is None:
            column = self._column(items[0])
            if column is None or self._dtypes[column] != self._pl.String:
                return None
            subject = Subject(column)
        if is_expression:
            return subject.may_match(values[0])
        assert pattern is not None
        node = subject.is_like(pattern.format(escape_like(values[0])))
        return tree.negation(node) if negated else node

    def _contains(self, item: dict[str, Any], value: dict[str, Any], negated: bool) -> Node | None:
        column, values = item.get("Column"), self._values(value)
        if column is None or column not in self._columns or not self._is_list(column):
            return None
        if values is None or len(values) != 1 or values.null_count() or values.dtype != self._dtypes[column].inner:
            return None
        return (NotContains if negated else Contains)(column, literal.from_collection(values)[0])

    def _column(self, item: dict[str, Any]) -> str | None:
        """Return the name of a bare column of single values; None for other expressions."""
        name = item.get("Column")
        return None if name is None or name not in self._columns or self._is_list(name) else name

    def _call(self, item: dict[str, Any]) -> Subject | None:
        """Return the function of a bare column that `predicate.calls` knows; None for other expressions."""
        if "Cast" in item and item["Cast"]["dtype"] == {"Literal": "String"}:
            name = self._column(item["Cast"]["expr"])
            if name is None:
                return None
            dtype = self._dtypes[name]
            has_text = dtype.is_integer() or dtype in (self._pl.Date, self._pl.String)
            return Subject(name, "string", is_exact=False) if has_text else None
        if "Function" not in item or len(item["Function"]["input"]) != 1:
            return None
        kind = item["Function"]["function"]
        function = _CALLS.get(str(kind.get("StringExpr"))) if isinstance(kind, dict) else None
        name = self._column(item["Function"]["input"][0])
        if name is None or function is None or self._dtypes[name] != self._pl.String:
            return None
        return Subject(name, function, is_exact=False)

    def _is_list(self, column: str) -> bool:
        return isinstance(self._dtypes[column], self._pl.List)

    def _values(self, item: dict[str, Any]) -> Any:
        """Return a literal as a Series; None for other expressions."""
        if "Alias" in item:
            item = item["Alias"][0]
        number = item.get("Literal")
        return self._literals[number] if isinstance(number, int) else None

    def _compares_exactly(self, column: str, dtype: Any) -> bool:
        """Return whether polars compares the column with literals of that type exactly."""
        column_dtype = self._dtypes[column]
        if isinstance(column_dtype, self._pl.Decimal) and isinstance(dtype, self._pl.Decimal):
            return bool(dtype.scale <= column_dtype.scale)
        return bool(dtype == column_dtype)


def scan_polars(
    paths: DatasetSource | None,
    *,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    timezone: str = "UTC",
    cache: MetadataCache | None = SHARED_CACHE,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
    variant: Literal["json"] | None = None,
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
    variant : as in `read_table`.

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

    Examples
    --------
    >>> import polars as pl
    >>> frame = parquet_bloom.scan_polars("lake").filter(pl.col("id") == 1401181143)
    >>> frame.select("country").collect().to_dicts()
    [{'country': 'pl'}]
    """
    source = ScanSource(paths, filesystem, storage_options, index, zones, partitioning, cache, variant=variant)
    return scan_source(*fix_schema(source.resolve()), timezone)


def scan_source(source: ScanSource, schema: pa.Schema, timezone: str = "UTC") -> Any:
    """Return a dataset as a polars LazyFrame; see `scan_polars`.

    Parameters
    ----------
    source : the files.
    schema : of the rows.
    timezone : as in `prune`.
    """
    pl = import_polars()
    io_source = _FrameSource(pl, source, schema, timezone)
    return pl.io.plugins.register_io_source(io_source.read_frames, schema=io_source.dtypes)


def import_polars() -> Any:
    """Return the polars package; raise ParquetBloomError if it is not installed."""
    try:
        import polars.io.plugins
    except ImportError:
        raise ParquetBloomError("scan_polars needs polars 1.31 or newer, which is not installed") from None
    return polars


class _FrameSource:
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
        node = None if read_all else translate(self._pl, predicate, self.dtypes, self._exact)
        trust = None if node is None else DatasetCompatibility.of(self._schema, sorted(tree.columns(node)))
        options = ScanOptions(self._timezone, named=lambda _: True, trust=trust)
        plan = self._source.plan(node, options)
        schema = pa.schema([self._schema.field(name) for name in columns])
        if n_rows is not None:  # mostly few: nothing is read ahead of them
            options = replace(options, threads=1)
        reader = RowReader(plan, columns, schema=schema, cache=self._source.cache, options=options)
        remaining = n_rows
        for batch in reader.read_batches()[1]:
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
