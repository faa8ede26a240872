"""A lake as a source of Daft: its filters choose files and row groups, and Daft filters the rows again.

Daft evaluates comparisons by its own rules: NaN is greater than any number, `0.0` is not `-0.0`. What of a filter is
translated is true wherever Daft's is; the rest is left to Daft.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ..scan.dataset import Dataset, Fragment, require_dataset
from ..scan.model.split_plan import estimate_bytes
from ..util.arrow_values import decode_dictionaries, make_scalar
from ..util.threads import processors
from .needed_library import needed_library, require_release

with needed_library("daft", "DaftLake needs Daft 0.7.10 or newer", "'daft>=0.7.10'"):
    import daft
    from daft import DataType
    from daft.expressions.visitor import ExpressionVisitor, PredicateVisitor
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch
    from daft.schema import Schema

if TYPE_CHECKING:
    from daft import Expression
    from daft.io.pushdowns import Pushdowns

# Before, tasks are not made and read asynchronously.
require_release("DaftLake", "daft", daft.__version__, "0.7.10")

_TASK_BYTES = 64 << 20  # of files, that a task reads at most

_Known: TypeAlias = pc.Expression | None
"""What holds wherever an expression of Daft is true; None if nothing is known."""


class DaftLake(DataSource):  # type: ignore[misc]
    """A dataset for Daft, `DaftLake(dataset).read()`, which reads only the files and row groups that a query needs.

    Filters, columns and limits of a query are pushed down. Files are listed and planned when it runs, by statistics,
    filters, indexes and zones; each task gets the plan of its own files.

    Parameters
    ----------
    dataset : as `parquet_bloom.dataset` returns it, also of a table or an index.
    """

    def __init__(self, dataset: Dataset):
        require_dataset(dataset)
        self._dataset = dataset

    @property
    def name(self) -> str:
        """The name that Daft shows."""
        return "parquet_bloom"

    @property
    def schema(self) -> Schema:
        """The columns, in Daft's types."""
        return _make_schema(_decode(self._dataset.schema))

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """Plan the query, and yield its tasks, in the order of files."""
        schema, filters = self._dataset.schema, pushdowns.filters
        expression = None if filters is None else FilterTranslation(schema).visit(filters)
        names = schema.names
        filtered = set() if filters is None else _visit(_ColumnNames(), filters)
        if pushdowns.columns is not None and filtered is not None:
            needed = {*pushdowns.columns, *filtered}
            names = [name for name in names if name in needed] or names[:1]
        # With a filter the limit counts the rows that Daft's own filter leaves.
        limit = pushdowns.limit if filters is None else None
        for whole in self._dataset.split(1, expression):
            num_bytes = sum(map(estimate_bytes, whole.plan().files))
            for part in whole.split(max(processors(), num_bytes // _TASK_BYTES)):
                yield _LakeTask(part, pa.schema([schema.field(name) for name in names]), limit)


class _LakeTask(DataSourceTask):  # type: ignore[misc]
    def __init__(self, part: Fragment, schema: pa.Schema, limit: int | None):
        self._part, self._schema, self._limit = part, _decode(schema), limit

    @property
    def schema(self) -> Schema:
        return _make_schema(self._schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        """Yield the rows."""
        remaining = self._limit
        with closing(self._part.scanner(columns=self._schema.names).to_reader()) as batches:
            for batch in batches:
                if remaining is not None:
                    batch = batch.slice(0, remaining)
                    remaining -= batch.num_rows
                if batch.num_rows:
                    yield RecordBatch.from_arrow_record_batches([batch.cast(self._schema)], self._schema)
                if remaining == 0:
                    return


def _decode(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries, which Daft does not take."""
    return pa.schema([field.with_type(decode_dictionaries(field.type)) for field in schema])


def _make_schema(schema: pa.Schema) -> Schema:
    return Schema.from_field_name_and_types([(field.name, _make_type(field.type)) for field in schema])


def _make_type(arrow_type: pa.DataType) -> DataType:
    """Return the type that Daft gives to rows of a type of Arrow."""
    if not isinstance(arrow_type, pa.BaseExtensionType):
        return DataType.from_arrow_type(arrow_type)
    # A UUID is one in rows, and an unknown extension in a schema.
    empty = pa.ExtensionArray.from_storage(arrow_type, pa.nulls(0, arrow_type.storage_type))
    batch = pa.RecordBatch.from_arrays([empty], ["value"])
    return RecordBatch.from_arrow_record_batches([batch], batch.schema).schema()["value"].dtype


def _visit(visitor: ExpressionVisitor, expr: Expression) -> Any:
    """Let a visitor visit an expression; None for one that Daft shows to no visitor, such as a struct's field."""
    try:
        return expr._expr.accept(visitor)
    except ValueError as error:  # Daft says so in no other way
        if not str(error).startswith("Visitor does not support"):
            raise
        return None


class FilterTranslation(PredicateVisitor):  # type: ignore[misc]
    """Translates filters of Daft to expressions of Arrow that are true wherever they are; None if there is none.

    Parameters
    ----------
    schema : of the rows.
    """

    def __init__(self, schema: pa.Schema):
        self._schema = schema
        self._is_negated = False  # whether what holds is wanted where the expression is false

    def visit(self, expr: Expression) -> _Known:
        is_negated = self._is_negated
        known: _Known = _visit(self, expr)
        self._is_negated = is_negated  # also if a visit has ended early
        return known

    def visit_and(self, left: Expression, right: Expression) -> _Known:
        return self._join([self.visit(left), self.visit(right)], is_any=self._is_negated)

    def visit_or(self, left: Expression, right: Expression) -> _Known:
        return self._join([self.visit(left), self.visit(right)], is_any=not self._is_negated)

    def _join(self, parts: Sequence[_Known], is_any: bool) -> _Known:
        known = [part for part in parts if part is not None]
        if not known or (is_any and len(known) < len(parts)):
            return None
        result = known[0]
        for part in known[1:]:
            result = result | part if is_any else result & part
        return result

    def visit_not(self, expr: Expression) -> _Known:
        self._is_negated = not self._is_negated
        result = self.visit(expr)
        self._is_negated = not self._is_negated
        return result

    def visit_equal(self, left: Expression, right: Expression) -> _Known:
        return self._compare("==", left, right)

    def visit_not_equal(self, left: Expression, right: Expression) -> _Known:
        return self._compare("!=", left, right)

    def visit_less_than(self, left: Expression, right: Expression) -> _Known:
        return self._compare("<", left, right)

    def visit_less_than_or_equal(self, left: Expression, right: Expression) -> _Known:
        return self._compare("<=", left, right)

    def visit_greater_than(self, left: Expression, right: Expression) -> _Known:
        return self._compare(">", left, right)

    def visit_greater_than_or_equal(self, left: Expression, right: Expression) -> _Known:
        return self._compare(">=", left, right)

    def visit_between(self, expr: Expression, lower: Expression, upper: Expression) -> _Known:
        parts = [self._compare(">=", expr, lower), self._compare("<=", expr, upper)]
        return self._join(parts, is_any=self._is_negated)

    def visit_is_in(self, expr: Expression, items: list[Expression]) -> _Known:
        if self._is_negated:
            return None
        column, values = _find_column(expr), [_find_literal(item) for item in items]
        if column is not None and self._schema.names.count(column) == 1:
            arrow_type = self._schema.field(column).type
            # A thousand alternatives take a second to be read. Of floats not all that is equal is the same.
            if not pa.types.is_floating(arrow_type) and all(_is_exact(arrow_type, "==", value) for value in values):
                return pc.field(column).isin(pa.array(values, arrow_type))
        return self._join([self._compare("==", expr, item) for item in items], is_any=True)

    def visit_is_null(self, expr: Expression) -> _Known:
        return self._test_null(expr, is_null=not self._is_negated)

    def visit_not_null(self, expr: Expression) -> _Known:
        return self._test_null(expr, is_null=self._is_negated)

    def _test_null(self, expr: Expression, is_null: bool) -> _Known:
        name = _find_column(expr)
        if name is None or name not in self._schema.names:
            return None
        return pc.field(name).is_null() if is_null else pc.field(name).is_valid()

    def visit_function(self, name: str, args: list[Expression]) -> _Known:
        if name not in _PIECES or self._is_negated or len(args) != 2:
            return None
        column, piece = _find_column(args[0]), _find_literal(args[1])
        if not self._is_of(column, _TEXTS) or not isinstance(piece, str):
            return None
        return _PIECES[name](pc.field(column), piece)

    def visit_col(self, name: str) -> _Known:
        return pc.field(name) == pc.scalar(not self._is_negated) if self._is_of(name, [pa.types.is_boolean]) else None

    def visit_lit(self, value: object) -> _Known:
        return None

    def visit_alias(self, expr: Expression, alias: str) -> _Known:
        return self.visit(expr)

    def visit_cast(self, expr: Expression, dtype: object) -> _Known:
        return None

    def visit_coalesce(self, args: list[Expression]) -> _Known:
        return None

    def _is_of(self, column: str | None, kinds: Iterable[Callable[[pa.DataType], bool]]) -> bool:
        """Return whether a column exists, once, and its type is of some kinds."""
        if column is None or self._schema.names.count(column) != 1:
            return False
        return any(is_kind(self._schema.field(column).type) for is_kind in kinds)

    def _compare(self, comparison: str, left: Expression, right: Expression) -> _Known:
        column, value = _find_column(left), _find_literal(right)
        if column is None:
            column, value, comparison = _find_column(right), _find_literal(left), _SWAPPED[comparison]
        if column is None or value is None or self._schema.names.count(column) != 1:
            return None
        if self._is_negated:
            comparison = _OPPOSITES[comparison]
        return _compare(pc.field(column), self._schema.field(column).type, comparison, value)


def _compare(field: pc.Expression, arrow_type: pa.DataType, comparison: str, value: object) -> _Known:
    """Compare a column with a literal, if Daft does that exactly, or so that it is true wherever Daft's is."""
    if pa.types.is_timestamp(arrow_type) and isinstance(value, datetime.datetime) and comparison != "!=":
        return _compare_moments(field, arrow_type, comparison, value)
    if not _is_exact(arrow_type, comparison, value):
        return None
    return _OPERATORS[comparison](field, make_scalar(value, arrow_type))


def _is_exact(arrow_type: pa.DataType, comparison: str, value: object) -> bool:
    """Return whether Daft compares a column of a type with a literal as Arrow does."""
    if pa.types.is_integer(arrow_type) and arrow_type != pa.uint64():  # which Daft compares as a float
        bits, is_signed = arrow_type.bit_width, pa.types.is_signed_integer(arrow_type)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
        return type(value) is int and low <= value <= high
    if any(is_kind(arrow_type) for is_kind in _TEXTS):
        return isinstance(value, str)
    if pa.types.is_boolean(arrow_type):
        return isinstance(value, bool) and comparison in ("==", "!=")
    if pa.types.is_date32(arrow_type):
        return type(value) is datetime.date
    if not pa.types.is_float64(arrow_type) or comparison != "==":
        return False
    # Of floats only what NaN, and the zeros, do not come into.
    return value == value if type(value) is float else type(value) is int and abs(value) <= 1 << 53


def _compare_moments(
    field: pc.Expression, arrow_type: pa.DataType, comparison: str, value: datetime.datetime
) -> _Known:
    """Compare with a moment of which Python has the microseconds alone, and Daft may have more."""
    if (arrow_type.tz is None) != (value.tzinfo is None) or not 1700 < value.year < 2200:
        return None
    known, moments = [], pa.timestamp("us", arrow_type.tz)
    if comparison in ("==", ">", ">="):
        known.append(field >= make_scalar(value - _MICROSECOND, moments))
    if comparison in ("==", "<", "<="):
        known.append(field <= make_scalar(value + _MICROSECOND, moments))
    return known[0] if len(known) == 1 else known[0] & known[1]


_MICROSECOND = datetime.timedelta(microseconds=1)
_OPERATORS: dict[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PIECES: dict[str, Callable[[pc.Expression, str], pc.Expression]] = {
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "contains": pc.match_substring,
}
_TEXTS = (pa.types.is_string, pa.types.is_large_string)


class _ColumnOrLiteral(ExpressionVisitor):  # type: ignore[misc]
    """Tells bare columns and literals, as ("column", name) and ("literal", value), from all other expressions."""

    def visit_col(self, name: str) -> tuple[str, object] | None:
        return "column", name

    def visit_lit(self, value: object) -> tuple[str, object] | None:
        return "literal", value

    def visit_alias(self, expr: Expression, alias: str) -> tuple[str, object] | None:
        return self.visit(expr)

    def visit_cast(self, expr: Expression, dtype: object) -> None:
        return None

    def visit_function(self, name: str, args: list[Expression]) -> None:
        return None

    def visit_coalesce(self, args: list[Expression]) -> None:
        return None


class _ColumnNames(ExpressionVisitor):  # type: ignore[misc]
    """Collects the names of all columns of an expression; Daft's own visitor cannot visit a long list of `is_in`."""

    def visit_col(self, name: str) -> set[str]:
        return {name}

    def visit_lit(self, value: object) -> set[str]:
        return set()

    def visit_alias(self, expr: Expression, alias: str) -> set[str]:
        return self._collect(expr)

    def visit_cast(self, expr: Expression, dtype: object) -> set[str]:
        return self._collect(expr)

    def visit_function(self, name: str, args: list[Expression | list[Expression]]) -> set[str]:
        return self._collect(args)

    def visit_coalesce(self, args: list[Expression]) -> set[str]:
        return self._collect(args)

    def _collect(self, given: Expression | Sequence[Expression | list[Expression]]) -> set[str]:
        if isinstance(given, list | tuple):
            return set().union(*map(self._collect, given))
        names: set[str] = self.visit(given)
        return names


def _find_column(expr: Expression) -> str | None:
    """Return the name of a bare column; None for other expressions."""
    found = _visit(_ColumnOrLiteral(), expr)
    return found[1] if found is not None and found[0] == "column" else None


def _find_literal(expr: Expression) -> object:
    """Return the value of a literal; None for other expressions, and for null."""
    found = _visit(_ColumnOrLiteral(), expr)
    return found[1] if found is not None and found[0] == "literal" else None
