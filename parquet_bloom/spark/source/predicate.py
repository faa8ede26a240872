"""The condition of the data source's option 'prune', as pruning may ask it: without a session that could be asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import ParquetBloomError, PredicateError, UnknownColumnError
from ...predicate import parse, tree
from ...predicate.tree import (
    And,
    Compare,
    Connective,
    Contains,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
)
from ..condition.literals import Values, Zone, convert_values
from ..partitions.values import find_zone
from ..session.fallback import CannotPush
from ..session.fields import Field, find_field

# Literals that Spark compares by order with columns of a type without rounding either.
_ORDERED: dict[type[DataType], tuple[type, ...]] = {
    ByteType: (int,),
    ShortType: (int,),
    IntegerType: (int,),
    LongType: (int,),
    StringType: (str,),
    BinaryType: (bytes,),
    DateType: (dt.date,),
    TimestampType: (dt.datetime,),
    TimestampNTZType: (dt.datetime,),
}
_FIRST_YEAR, _LAST_YEAR = 1970, 2037  # between them all rules of zones are alike, whoever keeps them


@dataclass(frozen=True)
class Conjunct:
    """A condition that every row wanted meets.

    Attributes
    ----------
    node : the condition.
    fields : the column that each name in it means.
    """

    node: Node
    fields: Mapping[str, Field]


def conjuncts(text: str, schema: StructType, zone: str, ignore_case: bool) -> list[Conjunct]:
    """What a condition asks of rows, with the values that columns are compared with.

    Parameters
    ----------
    text : as it stands behind WHERE.
    schema : of the rows.
    zone : the session's time zone.

    Raises
    ------
    PredicateError
        It is not understood, or nothing exact can be said of a literal.
    UnknownColumnError
        It names a column that is not there.
    """
    try:
        node = parse(text, "spark")
        parts = node.children if isinstance(node, And) else (node,)
        return [_conjunct(part, schema, _Zone(zone), ignore_case) for part in parts]
    except CannotPush as doubt:
        raise PredicateError(f"option 'prune': {doubt}") from None
    except ParquetBloomError as error:
        error.problem = f"option 'prune': {error.problem}"
        raise


def _conjunct(node: Node, schema: StructType, zone: _Zone, ignore_case: bool) -> Conjunct:
    fields = {}
    for name in sorted(tree.columns(node)):
        field = find_field(schema, name, ignore_case)
        if field is None:
            raise UnknownColumnError("no such column", column=name)
        fields[name] = field

    def leaf(item: Leaf) -> Node:
        try:
            return _exact(item, fields[item.column], zone)
        except CannotPush as doubt:
            raise CannotPush(f"'{item.column}': {doubt}") from None

    def join(item: Connective, nodes: list[Node]) -> Node:
        return type(item)(tuple(nodes))

    return Conjunct(tree.fold(node, leaf, join), fields)


def _exact(item: Leaf, field: Field, zone: _Zone) -> Node:
    """The same of a column's own values; where Spark may see more or other values as equal, that there is one."""
    if isinstance(item, NotContains | IsNull | IsNotNull) or (isinstance(item, NotIn) and not item.values):
        return item
    if isinstance(item, NotEqual | NotIn):
        return IsNotNull(item.column)
    data_type = field.type
    if isinstance(item, Contains) and isinstance(data_type, ArrayType):
        data_type = data_type.elementType
    stamp = "TIMESTAMP_NTZ" if isinstance(data_type, TimestampNTZType) else "TIMESTAMP_LTZ"
    values = convert_values(item.literals, data_type, zone, stamp=stamp, is_list=isinstance(item, In))
    if isinstance(item, Compare):
        alike = len(values) == 1 and type(values[0]) in _ORDERED.get(type(data_type), ())
        return Compare(item.column, item.operator, values[0]) if alike else IsNotNull(item.column)
    if isinstance(item, Contains):
        return tree.any_of([Contains(item.column, value) for value in values])
    return In(item.column, tuple(values))


class _Zone(Zone):
    """A time zone of which no session is asked."""

    def __init__(self, name: str):
        self._name = name
        try:
            self.is_utc = find_zone(name).utcoffset(None) == dt.timedelta(0)
        except CannotPush:  # which matters to timestamps alone
            self.is_utc = False

    def instants(self, values: Values, stamp: str) -> list[dt.datetime]:
        """Wall clocks and days as instants."""
        found = []
        for value in values:
            clock = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
            if not self.is_utc and not _FIRST_YEAR <= clock.year <= _LAST_YEAR:
                raise CannotPush(f"{value} lies outside of the years {_FIRST_YEAR} to {_LAST_YEAR}: write its offset")
            found.append(clock.replace(tzinfo=find_zone(self._name)).astimezone(dt.UTC))
        return found
