"""The condition of the data source's option 'prune', made exact for pruning without a session."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    StructType,
    TimestampNTZType,
)

from ...errors import ParquetBloomError, PredicateError, UnknownColumnError
from ...predicate import parse, tree
from ...predicate.tree import (
    And,
    CallIn,
    CallNotIn,
    Compare,
    Connective,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
)
from ..condition.calls import read_call
from ..condition.literals import Values, Zone, convert_values, is_ordered_alike
from ..partitions.values import find_zone
from ..session.fallback import CannotPush
from ..session.fields import Field, find_field

_FIRST_YEAR, _LAST_YEAR = 1970, 2037  # within them all time zone databases agree


@dataclass(frozen=True)
class Conjunct:
    """A condition that every requested row meets.

    Attributes
    ----------
    node : the condition.
    fields : {name in the condition: column}.
    """

    node: Node
    fields: Mapping[str, Field]


def parse_conjuncts(text: str, schema: StructType, zone: str, ignore_case: bool) -> list[Conjunct]:
    """Parse a condition into conjuncts, with the literals that stored values are compared with.

    Parameters
    ----------
    text : SQL, as after WHERE.
    schema : schema of the rows.
    zone : the session's time zone.

    Raises
    ------
    PredicateError
        It is not understood, or a literal has no exact equivalent.
    UnknownColumnError
        It names a column that does not exist.
    """
    try:
        node = parse(text, "spark")
        parts = node.children if isinstance(node, And) else (node,)
        return [_make_conjunct(part, schema, _NamedZone(zone), ignore_case) for part in parts]
    except CannotPush as doubt:
        raise PredicateError(f"option 'prune': {doubt}") from None
    except ParquetBloomError as error:
        error.problem = f"option 'prune': {error.problem}"
        raise


def _make_conjunct(node: Node, schema: StructType, zone: _NamedZone, ignore_case: bool) -> Conjunct:
    fields = {}
    for name in sorted(tree.columns(node)):
        field = find_field(schema, name, ignore_case)
        if field is None:
            raise UnknownColumnError("no such column", column=name)
        fields[name] = field

    def leaf(item: Leaf) -> Node:
        try:
            return _make_exact(item, fields[item.column], zone)
        except CannotPush as doubt:
            raise CannotPush(f"'{item.column}': {doubt}") from None

    def join(item: Connective, nodes: list[Node]) -> Node:
        return type(item)(tuple(nodes))

    return Conjunct(tree.fold(node, leaf, join), fields)


def _make_exact(item: Leaf, field: Field, zone: _NamedZone) -> Node:
    """Return an equivalent condition on stored values, or IS NOT NULL if Spark may treat other values as equal."""
    if isinstance(item, NotContains | IsNull | IsNotNull) or (isinstance(item, NotIn) and not item.values):
        return item
    if isinstance(item, NotEqual | NotIn | CallNotIn):
        return IsNotNull(item.column)
    if isinstance(item, CallIn):
        return read_call(item, field.type)
    if not isinstance(item, Compare | Equal | In | Contains):  # a new kind of leaf must not be taken for an equality
        raise CannotPush(f"{item} is not supported")
    data_type = field.type
    if isinstance(item, Contains) and isinstance(data_type, ArrayType):
        data_type = data_type.elementType
    stamp = "TIMESTAMP_NTZ" if isinstance(data_type, TimestampNTZType) else "TIMESTAMP_LTZ"
    values = convert_values(item.literals, data_type, zone, stamp=stamp, is_list=isinstance(item, In))
    if isinstance(item, Compare):
        is_exact = len(values) == 1 and is_ordered_alike(values, data_type)
        return Compare(item.column, item.operator, values[0]) if is_exact else IsNotNull(item.column)
    if isinstance(item, Contains):
        return tree.any_of([Contains(item.column, value) for value in values])
    return In(item.column, tuple(values))


class _NamedZone(Zone):
    """A time zone by its name, without a session."""

    def __init__(self, name: str):
        self._name = name
        try:
            self.is_utc = find_zone(name).utcoffset(None) == dt.timedelta(0)
        except CannotPush:  # matters only for timestamps
            self.is_utc = False

    def instants(self, values: Values, stamp: str) -> list[dt.datetime]:
        """Return wall clocks and days as instants."""
        instants = []
        for value in values:
            clock = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
            if not self.is_utc and not _FIRST_YEAR <= clock.year <= _LAST_YEAR:
                raise CannotPush(f"{value} is outside of the years {_FIRST_YEAR} to {_LAST_YEAR}: write its offset")
            instants.append(clock.replace(tzinfo=find_zone(self._name)).astimezone(dt.UTC))
        return instants
