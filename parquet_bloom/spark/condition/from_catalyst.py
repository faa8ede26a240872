"""Conditions as Spark itself reads them -> predicate trees: Catalyst's expressions, of classic sessions.

Spark has then resolved names, folded whatever is constant, and brought both sides of each comparison to one type, so
that its literals are exactly what it compares a column with. What has no counterpart in the tree may be true.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql.types import DoubleType, FloatType, StructType

from ...predicate import tree
from ...predicate.tree import Compare, Contains, Equal, In, IsNotNull, IsNull, Node, all_of, any_of
from ..session.fallback import CannotPush
from ..session.fields import Field, find_field, types_of
from ..session.jvm import Jvm, class_name

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_COMPARISONS = {"LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = {"byte": 3, "short": 5, "integer": 10, "long": 19}  # digits
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_INSIDE = frozenset({"date", "timestamp", "timestamp_ntz", "binary"})  # their texts do not tell them exactly
_BINARY = "UTF8_BINARY"
_METADATA = ("__metadata_col", "__file_source_metadata_col")  # what Spark's JSON leaves out of an attribute


@dataclass(frozen=True)
class PushedPredicate:
    """What pruning asks of files.

    Attributes
    ----------
    node : what every row wanted holds, with the values that Spark compares the columns with; None for nothing at all.
    fields : the column that each name of `node` means.
    unknown : why parts of the condition are left to Spark, where there is more to say than that they are no
        comparisons of a column with values.
    """

    node: Node | None
    fields: Mapping[str, Field]
    unknown: tuple[str, ...] = ()

    @property
    def meets_zero_or_nan(self) -> bool:
        """Whether a float column is compared with zero or NaN, of which filters by other writers know one form only."""
        return any(
            any(value is not None and (value == 0 or value != value) for value in leaf.literals)
            for leaf in (tree.leaves(self.node) if self.node is not None else ())
            if isinstance(self.fields[leaf.column].type, FloatType | DoubleType)
        )

    def about(self, columns: frozenset[str]) -> PushedPredicate:
        """What of it is left when other columns are not looked at."""
        if self.node is None:
            return self
        left = tree.find_residual(self.node, lambda leaf: leaf if leaf.column in columns else True)
        node = left if isinstance(left, Node) else None
        names = tree.columns(node) if node is not None else set()
        return PushedPredicate(node, {name: self.fields[name] for name in names}, self.unknown)


def read_filters(jvm: Jvm, filters: Any, schema: StructType) -> PushedPredicate:
    """What the filters of a scan say of the columns of its files.

    Parameters
    ----------
    filters : Scala's Seq of expressions, of which all hold for every row wanted.
    schema : the columns of the files.
    """
    fields: dict[str, Field] = {}
    hidden: dict[tuple[int, str], bool] = {}
    unknown: list[str] = []
    found = []
    for index in range(filters.size()):
        node = _Reader(jvm, filters.apply(index), schema, fields, unknown, hidden).node()
        if node is not None:
            found.append(node)
    used = all_of(found) if found else None
    names = tree.columns(used) if used is not None else set()
    return PushedPredicate(used, {name: fields[name] for name in names}, tuple(dict.fromkeys(unknown)))


class _Unknown(Exception):
    """An expression has no counterpart in the predicate tree: it may be true."""


@dataclass
class _Item:
    """One expression: what Spark's JSON has of it, its place in the order of that, and its children."""

    json: dict[str, Any]
    place: int
    children: list[_Item]

    @property
    def kind(self) -> str:
        return self.json["class"].rpartition(".")[2]


class _Reader:
    """Reads one expression.

    Parameters
    ----------
    fields : takes the columns that it names.
    unknown : takes why something of it is not known.
    hidden : {an attribute's id: whether it is one of `_metadata`}, of all that were met.
    """

    def __init__(
        self,
        jvm: Jvm,
        expression: Any,
        schema: StructType,
        fields: dict[str, Field],
        unknown: list[str],
        hidden: dict[tuple[int, str], bool],
    ):
        self._unknown = unknown
        self._jvm = jvm
        self._expression = expression
        self._schema = schema
        self._fields = fields
        self._hidden = hidden

    def node(self) -> Node | None:
        """What it says; None where that is nothing that the tree can say."""
        try:
            flat = json.loads(self._expression.toJSON())
            if any("Subquery" in item["class"] for item in flat):
                return None  # its own expressions may stand among those that Spark counts
            top = _items(flat)
            return self._node(top, negated=False)
        except (_Unknown, RecursionError, ValueError, LookupError):
            return None

    def _node(self, item: _Item, negated: bool) -> Node:
        """A node that is true wherever the expression, or its negation, is true."""
        if item.kind == "Not":
            return self._node(item.children[0], not negated)
        if item.kind in ("And", "Or"):
            return self._join(item, negated)
        leaf = self._leaf(item)
        return tree.negation(leaf) if negated else leaf

    def _join(self, item: _Item, negated: bool) -> Node:
        """NOT (a AND b) is NOT a OR NOT b, with nulls too."""
        if (item.kind == "And") == negated:  # an alternative that is not known may be the one that holds
            return any_of([self._node(child, negated) for child in item.children])
        known = []
        for child in item.children:
            try:
                known.append(self._node(child, negated))
            except _Unknown:
                continue
        if not known:
            raise _Unknown
        return all_of(known)

    def _leaf(self, item: _Item) -> Node:
        kind, children = item.kind, item.children
        if kind in ("IsNull", "IsNotNull"):
            field, type_name = self._column(children[0])
            if not _is_known(type_name):
                raise _Unknown
            return (IsNull if kind == "IsNull" else IsNotNull)(field.name)
        if kind in ("In", "InSet"):
            field, type_name = self._number(children[0])
            values = self._set(item, type_name) if kind == "InSet" else self._literals(children[1:], type_name)
            return In(field.name, tuple(values))
        if kind == "ArrayContains":
            field, array_type = self._column(children[0])
            if not isinstance(array_type, dict) or array_type.get("type") != "array":
                raise _Unknown
            return Contains(field.name, self._literal(children[1], array_type["elementType"]))
        if kind in ("EqualTo", "EqualNullSafe", *_COMPARISONS):
            mirrored = children[0].kind == "Literal"
            column, literal = reversed(children) if mirrored else children
            field, type_name = self._number(column) if kind not in _COMPARISONS else self._column(column)
            value = self._literal(literal, type_name)
            if kind == "EqualTo":
                return Equal(field.name, value)
            if kind == "EqualNullSafe":
                return tree.null_safe_equal(field.name, value)
            if type_name in ("float", "double"):
                raise _Unknown  # statistics leave out NaN, which is above all numbers here
            operator = _COMPARISONS[kind]
            return Compare(field.name, _MIRRORED[operator] if mirrored else operator, value)
        raise _Unknown

    def _number(self, item: _Item) -> tuple[Field, Any]:
        """A column, also one that is cast to a type that has all its numbers, or to double, which it equals rounded."""
        if item.kind != "Cast":
            return self._column(item)
        field, own = self._column(item.children[0])
        wider = item.json["dataType"]
        if wider == "double" and (own in _WHOLE or _digits(own)):
            return field, wider
        before, after = _digits(own), _digits(wider)
        if before is None or after is None or after[0] < before[0] or after[1] < before[1]:
            raise _Unknown
        return field, wider

    def _column(self, item: _Item) -> tuple[Field, Any]:
        """A column, or a field of a struct, and the name of its type."""
        path: list[str] = []
        while item.kind == "GetStructField":
            (child,) = item.children
            names = _struct_fields(child)
            path.append(names[int(item.json["ordinal"])]["name"])
            type_name = names[int(item.json["ordinal"])]["type"]
            if len(path) == 1:
                found = type_name
            item = child
        if item.kind != "AttributeReference":
            raise _Unknown
        if not path:
            found = item.json["dataType"]
        path.append(item.json["name"])
        name = ".".join(reversed(path))
        try:
            field = find_field(self._schema, name, ignore_case=False)
        except CannotPush as doubt:
            self._unknown.append(str(doubt))
            raise _Unknown from None
        if field is None or list(field.path) != path[::-1] or self._is_hidden(item):
            raise _Unknown
        collations = {getattr(kind, "collation", _BINARY) for kind in types_of(field.type)}
        if collations != {_BINARY}:
            own = max(collations - {_BINARY})
            self._unknown.append(f"'{name}': under the collation {own} different texts are equal")
            raise _Unknown
        self._fields[name] = field
        return field, found

    def _is_hidden(self, item: _Item) -> bool:
        """Whether an attribute is one of `_metadata`, such as the file's name: a column may have the same name."""
        identity = item.json["exprId"]
        key = identity["id"], identity["jvmId"]
        if key not in self._hidden:
            metadata = self._java(item).metadata()
            self._hidden[key] = any(map(metadata.contains, _METADATA))
        return self._hidden[key]

    def _literals(self, items: list[_Item], type_name: Any) -> Iterator[Any]:
        return (self._literal(item, type_name) for item in items)

    def _literal(self, item: _Item, type_name: Any) -> Any:
        if item.kind != "Literal" or item.json["dataType"] != type_name:
            raise _Unknown
        text = item.json["value"]
        if text is None:
            return None
        if isinstance(type_name, str) and (type_name in _AS_TEXT or _DECIMAL.fullmatch(type_name)):
            return _of_text(text, type_name)
        return _of_value(self._java(item).value(), type_name)

    def _java(self, item: _Item) -> Any:
        """The expression itself, which Spark finds by its place."""
        found = self._expression.apply(item.place)
        if class_name(found) != item.kind:
            raise _Unknown
        return found

    def _set(self, item: _Item, type_name: Any) -> list[Any]:
        """The values of a list that Spark has made a set of, which its JSON leaves out."""
        values = self._java(item).hset()
        if values.contains(None):
            values = getattr(values, "$minus")(None)  # a NULL in a list equals nothing
        if type_name == "binary":
            return [_of_value(value, type_name) for value in _each(values)]
        try:
            texts = self._jvm.texts(values)
        except ValueError:
            texts = [value if isinstance(value, str) else value.toString() for value in _each(values)]
        if type_name in _INSIDE:
            return [_of_value(int(text), type_name) for text in texts]
        return [_of_text(text, type_name) for text in texts]


def _digits(type_name: Any) -> tuple[int, int] | None:
    """Digits before and behind the point that a type's numbers have at most; None for other types."""
    if not isinstance(type_name, str):
        return None
    found = _DECIMAL.fullmatch(type_name)
    if found is None:
        return (_WHOLE[type_name], 0) if type_name in _WHOLE else None
    precision, scale = int(found[1]), int(found[2])
    return precision - scale, scale


def _is_known(type_name: Any) -> bool:
    if not isinstance(type_name, str):
        return False
    return type_name in _AS_TEXT or type_name in _INSIDE or _DECIMAL.fullmatch(type_name) is not None


def _each(values: Any) -> Iterator[Any]:
    iterator = values.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _items(flat: list[dict[str, Any]]) -> _Item:
    """Spark's JSON, which has each expression before its children, as a tree."""
    made: list[_Item] = []
    for place in reversed(range(len(flat))):
        count = flat[place]["num-children"]
        children = [made.pop() for _ in range(count)]
        made.append(_Item(flat[place], place, children))
    (top,) = made
    return top


def _struct_fields(item: _Item) -> list[dict[str, Any]]:
    if item.kind == "AttributeReference":
        found = item.json["dataType"]
    elif item.kind == "GetStructField":
        found = _struct_fields(item.children[0])[int(item.json["ordinal"])]["type"]
    else:
        raise _Unknown
    if not isinstance(found, dict) or found.get("type") != "struct":
        raise _Unknown
    return found["fields"]


def _float32(text: str) -> float:
    return float(np.float32(text))


_AS_TEXT: dict[Any, Callable[[str], Any]] = {
    **dict.fromkeys(_WHOLE, int),
    "float": _float32,
    "double": float,
    "string": str,
    "boolean": lambda text: {"true": True, "false": False}[text],
}


def _of_text(text: str, type_name: Any) -> Any:
    """A literal from the text that Java has for it."""
    if not isinstance(type_name, str) or "\ufffd" in text:
        raise _Unknown  # what is no UTF-8 looks like this
    if type_name in _AS_TEXT:
        return _AS_TEXT[type_name](text)
    if _DECIMAL.fullmatch(type_name):
        return decimal.Decimal(text)
    raise _Unknown


def _of_value(value: Any, type_name: Any) -> Any:
    """A literal from what Spark has inside: days, or microseconds, since 1970."""
    try:
        if type_name == "date":
            return dt.date.fromordinal(_EPOCH_DAY + value)
        if type_name in ("timestamp", "timestamp_ntz"):
            moment = _EPOCH + dt.timedelta(microseconds=value)
            return moment.replace(tzinfo=dt.UTC) if type_name == "timestamp" else moment
    except (OverflowError, ValueError):
        raise _Unknown from None  # outside of the years that Python knows
    if type_name == "binary":
        return bytes(value)
    raise _Unknown
