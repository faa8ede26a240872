"""Convert Catalyst expressions (classic sessions) to predicate trees.

Spark has resolved names, folded constants, and brought both sides of each comparison to one type, so its literals are
exactly the values that it compares a column with. An expression without a counterpart in the tree may be true.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.types import MapType, StructType, VariantType

from ...errors import PredicateError
from ...predicate import tree
from ...predicate.literal import Literal
from ...predicate.patterns import escape_like, normalize_like
from ...predicate.subject import Subject, VariantPart
from ...predicate.tree import CallIn, Compare, Contains, Equal, In, IsNotNull, IsNull, Node, all_of, any_of
from ...predicate.variant_names import parse_target
from ...util.arrow_values import make_scalar
from ...variant.variant_path import parse_path
from ..session.jvm import JavaObject, Jvm, class_name, iter_elements
from ..session.session_settings import CannotPush, SparkField, find_field, iter_types
from .literals import find_target_type, is_plain_text, meets_zero_or_nan, read_call

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_COMPARISONS = {"LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}  # digits
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_INTERNAL = frozenset({"date", "timestamp", "timestamp_ntz", "binary"})  # their texts are not exact
_BINARY = "UTF8_BINARY"
_LOOKUPS = ("GetMapValue", "ElementAt")  # of lists, too
_PIECES = {"StartsWith": "{}%", "EndsWith": "%{}", "Contains": "%{}%"}
_CALLS = {"Lower": "lower", "Upper": "upper", "Cast": "string"}
_VARIANT = "variant"
_EXTRACTED = "__VARIANT_METADATA_KEY"
"""Metadata of a field of the struct that Spark reads of a Variant where a query needs some of its paths only."""

_TypeName = str | dict[str, Any]
"""A type in Spark's JSON: the name of an atomic one, or the fields of another."""

_METADATA = ("__metadata_col", "__file_source_metadata_col")  # missing in Spark's JSON of an attribute


@dataclass(frozen=True)
class PushedPredicate:
    """The part of a condition that pruning can evaluate.

    Attributes
    ----------
    node : the predicate, with the values that Spark compares the columns with; None if nothing can be evaluated.
    fields : the column of each name in `node`.
    unknown : reasons that parts of the condition are left to Spark, other than that they do not compare a column with
        values.
    """

    node: Node | None
    fields: Mapping[str, SparkField]
    unknown: tuple[str, ...] = ()

    @property
    def meets_zero_or_nan(self) -> bool:
        """True if a float column is compared with zero or NaN, of which filters of other writers have only one form."""
        return meets_zero_or_nan(self.node, self.fields)

    def restrict_to(self, columns: frozenset[str]) -> PushedPredicate:
        """Return the part of the predicate that concerns some columns."""
        if self.node is None:
            return self
        residual = tree.find_residual(self.node, lambda leaf: leaf if leaf.column in columns else True)
        node = residual if isinstance(residual, Node) else None
        names = tree.columns(node) if node is not None else set()
        return PushedPredicate(node, {name: self.fields[name] for name in names}, self.unknown)


def read_filters(jvm: Jvm, filters: JavaObject, schema: StructType) -> PushedPredicate:
    """Convert the filters of a scan to a predicate over the columns of its files.

    Parameters
    ----------
    filters : Scala's Seq of expressions, all of which hold for every row of the result.
    schema : the columns of the files.
    """
    fields: dict[str, SparkField] = {}
    hidden: dict[tuple[int, str], bool] = {}
    unknown: list[str] = []
    nodes = []
    for i in range(filters.size()):
        node = _CatalystReader(jvm, filters.apply(i), schema, fields, unknown, hidden).read()
        if node is not None:
            nodes.append(node)
    predicate = all_of(nodes) if nodes else None
    names = tree.columns(predicate) if predicate is not None else set()
    return PushedPredicate(predicate, {name: fields[name] for name in names}, tuple(dict.fromkeys(unknown)))


class _Unknown(Exception):
    """An expression has no counterpart in the predicate tree, so it may be true."""


@dataclass
class _Item:
    """One expression: its entry in Spark's JSON, the position of that entry, and its children."""

    json: dict[str, Any]
    position: int
    children: list[_Item]

    @property
    def kind(self) -> str:
        return self.json["class"].rpartition(".")[2]


class _CatalystReader:
    """Reader of one expression.

    Parameters
    ----------
    fields : the columns that it names are added here.
    unknown : reasons that a part cannot be read are added here.
    hidden : cache {id of an attribute: whether it is part of `_metadata`}.
    """

    def __init__(
        self,
        jvm: Jvm,
        expression: JavaObject,
        schema: StructType,
        fields: dict[str, SparkField],
        unknown: list[str],
        hidden: dict[tuple[int, str], bool],
    ):
        self._unknown = unknown
        self._jvm = jvm
        self._expression = expression
        self._schema = schema
        self._fields = fields
        self._hidden = hidden
        self._looked_up: Subject | None = None  # by the comparison that is being read

    def read(self) -> Node | None:
        """Return the predicate, or None if the tree cannot represent any of it."""
        try:
            flat = json.loads(self._expression.toJSON())
            if any("Subquery" in item["class"] for item in flat):
                return None  # positions in the JSON may then differ from those that `apply` takes
            top = _build_tree(flat)
            return self._read_node(top, negated=False)
        except (_Unknown, RecursionError, LookupError, PredicateError):
            return None

    def _read_node(self, item: _Item, negated: bool) -> Node:
        """Return a node that is true wherever the expression, or its negation, is true."""
        if item.kind == "Not":
            return self._read_node(item.children[0], not negated)
        if item.kind in ("And", "Or"):
            return self._read_connective(item, negated)
        if item.kind == "RLike" and negated:  # what is necessary for it says nothing of its negation
            raise _Unknown
        leaf = self._read_leaf(item)
        return tree.negation(leaf) if negated else leaf

    def _read_connective(self, item: _Item, negated: bool) -> Node:
        """Read AND or OR; NOT (a AND b) is NOT a OR NOT b, with nulls too."""
        if (item.kind == "And") == negated:  # of an OR, each alternative must be known
            return any_of([self._read_node(child, negated) for child in item.children])
        known = []
        for child in item.children:
            try:
                known.append(self._read_node(child, negated))
            except _Unknown:
                continue
        if not known:
            raise _Unknown
        return all_of(known)

    def _read_leaf(self, item: _Item) -> Node:
        """Read a comparison of a column, of what a map has under a key, or of a path of a Variant."""
        self._looked_up = None
        node = self._read_comparison(item)
        return node if self._looked_up is None else self._looked_up.look_up(node)

    def _read_comparison(self, item: _Item) -> Node:
        kind, children = item.kind, item.children
        if kind in ("IsNull", "IsNotNull"):
            field, type_name = self._read_column(children[0])
            if not _is_supported(type_name):
                raise _Unknown
            return (IsNull if kind == "IsNull" else IsNotNull)(field.name)
        call = self._read_call(item)
        if call is not None:
            return call
        if kind in _PIECES or kind in ("Like", "RLike"):
            return self._read_pattern(item)
        if kind in ("In", "InSet"):
            field, type_name = self._read_number(children[0])
            values = (
                self._read_set(item, type_name) if kind == "InSet" else self._read_literals(children[1:], type_name)
            )
            return In(field.name, tuple(values))
        if kind == "ArrayContains":
            field, array_type = self._read_column(children[0])
            if not isinstance(array_type, dict) or array_type.get("type") != "array":
                raise _Unknown
            return Contains(field.name, self._read_literal(children[1], array_type["elementType"]))
        if kind in ("EqualTo", "EqualNullSafe", *_COMPARISONS):
            mirrored = children[0].kind == "Literal"
            column, literal = (children[1], children[0]) if mirrored else (children[0], children[1])
            field, type_name = self._read_number(column) if kind not in _COMPARISONS else self._read_column(column)
            value = self._read_literal(literal, type_name)
            if kind == "EqualTo":
                return Equal(field.name, value)
            if kind == "EqualNullSafe":
                return tree.null_safe_equal(field.name, value)
            if type_name in ("float", "double"):
                raise _Unknown  # Spark orders NaN above all numbers, but statistics leave it out
            operator = _COMPARISONS[kind]
            return Compare(field.name, _MIRRORED[operator] if mirrored else operator, value)
        raise _Unknown

    def _read_call(self, item: _Item) -> Node | None:
        """Read a comparison of a function of a column with texts for equality; None for other comparisons."""
        if item.kind not in ("EqualTo", "In", "InSet"):
            return None
        children = item.children
        call, *others = reversed(children) if children[0].kind == "Literal" and len(children) == 2 else children
        function = None if _is_variant_cast(call) else _CALLS.get(call.kind)
        if function is None or len(call.children) != 1:
            return None
        if function == "string" and call.json["dataType"] != "string":
            return None
        field, _ = self._read_column(call.children[0])
        values = self._read_set(item, "string") if item.kind == "InSet" else self._read_literals(others, "string")
        try:
            return read_call(CallIn(field.name, function, tuple(values)), field.type)
        except CannotPush as error:
            self._unknown.append(str(error))
            raise _Unknown from None

    def _read_pattern(self, item: _Item) -> Node:
        """Read a match of a text column with a pattern or a piece of text, or as ILIKE does of `lower` of one."""
        operand = item.children[0]
        function = _CALLS[operand.kind] if operand.kind in ("Lower", "Upper") else ""
        field, _ = self._read_column(operand.children[0] if function else operand)
        text = self._read_literal(item.children[1], "string")
        if not is_plain_text(field.type) or not isinstance(text, str):
            raise _Unknown
        subject = Subject(field.name, function, is_exact=False) if function else Subject(field.name)
        if item.kind == "RLike":
            necessary = subject.may_match(text)
            if necessary is None:
                raise _Unknown
            return necessary
        if item.kind in _PIECES:
            return subject.is_like(_PIECES[item.kind].format(escape_like(text)))
        return subject.is_like(normalize_like(text, item.json["escapeChar"]))

    def _read_number(self, item: _Item) -> tuple[SparkField, _TypeName]:
        """Read a column, which may be cast to a wider number type, or to double, to which integers are rounded."""
        if item.kind != "Cast" or _is_variant_cast(item):
            return self._read_column(item)
        field, narrow = self._read_column(item.children[0])
        wide = item.json["dataType"]
        if wide == "double" and (narrow in _INTEGER_DIGITS or _find_digits(narrow)):
            return field, wide
        before, after = _find_digits(narrow), _find_digits(wide)
        if before is None or after is None or after[0] < before[0] or after[1] < before[1]:
            raise _Unknown
        return field, wide

    def _read_column(self, item: _Item) -> tuple[SparkField, _TypeName]:
        """Read a column or struct field; return it with the name of its type."""
        if item.kind in _LOOKUPS and len(item.children) == 2:
            return self._read_lookup(*item.children)
        if item.kind == "VariantGet" or _is_variant_cast(item) or _find_extracted(item) is not None:
            return self._read_part(item)
        path: list[str] = []
        while item.kind == "GetStructField":
            (child,) = item.children
            names = _find_struct_fields(child)
            path.append(names[int(item.json["ordinal"])]["name"])
            type_name = names[int(item.json["ordinal"])]["type"]
            if len(path) == 1:
                leaf_type = type_name
            item = child
        if item.kind != "AttributeReference":
            raise _Unknown
        if not path:
            leaf_type = item.json["dataType"]
        path.append(item.json["name"])
        name = ".".join(reversed(path))
        try:
            field = find_field(self._schema, name, ignore_case=False)
        except CannotPush as error:
            self._unknown.append(str(error))
            raise _Unknown from None
        if field is None or list(field.path) != path[::-1] or self._is_hidden(item):
            raise _Unknown
        collations = {getattr(kind, "collation", _BINARY) for kind in iter_types(field.type)}
        if collations != {_BINARY}:
            collation = max(collations - {_BINARY})
            self._unknown.append(f"'{name}': different texts are equal under the collation {collation}")
            raise _Unknown
        self._fields[name] = field
        return field, leaf_type

    def _read_lookup(self, column: _Item, key: _Item) -> tuple[SparkField, _TypeName]:
        """Read what a map has under a key, as a column of that type; `_read_leaf` makes a lookup of the comparison."""
        field, type_name = self._read_column(column)
        if self._looked_up is not None or not isinstance(field.type, MapType) or not isinstance(type_name, dict):
            raise _Unknown
        self._looked_up = Subject(field.name, key=self._read_literal(key, type_name["keyType"]))
        if self._looked_up.key is None:
            raise _Unknown
        return replace(field, type=field.type.valueType), type_name["valueType"]

    def _read_part(self, item: _Item) -> tuple[SparkField, _TypeName]:
        """Read what a Variant has at a path, as a column of the type that it is cast to; see `_read_lookup`."""
        cast_type, is_try_cast = None, False
        if _is_variant_cast(item):
            cast_type, is_try_cast = item.json["dataType"], self._find_java(item).evalMode().toString() == "TRY"
            (item,) = item.children
        path, type_name, is_try = "$", _VARIANT, False
        extracted = _find_extracted(item)
        if item.kind == "VariantGet":
            type_name, is_try = item.json["targetType"], not item.json["failOnError"]
            item, literal = item.children
            path = cast(str, self._read_literal(literal, "string"))
        elif extracted is not None:
            rules = extracted["metadata"][_EXTRACTED]
            path, type_name, is_try = rules["path"], extracted["type"], not rules["failOnError"]
            (item,) = item.children
        if cast_type is not None and type_name == _VARIANT:
            type_name, is_try = cast_type, is_try_cast
        field, _ = self._read_column(item)
        if self._looked_up is not None or not isinstance(field.type, VariantType):
            raise _Unknown
        part = _make_part(path, type_name, is_try)
        self._looked_up = Subject(field.name, part=part)
        return replace(field, type=find_target_type(part.target)), type_name

    def _is_hidden(self, item: _Item) -> bool:
        """Return True if an attribute is part of `_metadata`; a column of the file may have the same name."""
        identity = item.json["exprId"]
        key = identity["id"], identity["jvmId"]
        if key not in self._hidden:
            metadata = self._find_java(item).metadata()
            self._hidden[key] = any(map(metadata.contains, _METADATA))
        return self._hidden[key]

    def _read_literals(self, items: list[_Item], type_name: _TypeName) -> Iterator[Literal]:
        return (self._read_literal(item, type_name) for item in items)

    def _read_literal(self, item: _Item, type_name: _TypeName) -> Literal:
        if item.kind != "Literal" or item.json["dataType"] != type_name:
            raise _Unknown
        text = item.json["value"]
        if text is None:
            return None
        if isinstance(type_name, str) and (type_name in _AS_TEXT or _DECIMAL.fullmatch(type_name)):
            return _parse_text(text, type_name)
        return _convert_value(self._find_java(item).value(), type_name)

    def _find_java(self, item: _Item) -> JavaObject:
        """Return the Java object of an expression, which Spark finds by its position."""
        expression = self._expression.apply(item.position)
        if class_name(expression) != item.kind:
            raise _Unknown
        return expression

    def _read_set(self, item: _Item, type_name: _TypeName) -> list[Literal]:
        """Read the values of a list that Spark has converted to a set, which its JSON leaves out."""
        values = self._find_java(item).hset()
        if values.contains(None):
            values = getattr(values, "$minus")(None)  # a NULL in a list equals nothing
        if type_name == "binary":
            return [_convert_value(value, type_name) for value in iter_elements(values.toSeq())]
        texts = self._jvm.texts(values)
        if type_name in _INTERNAL:
            return [_convert_value(int(text), type_name) for text in texts]
        return [_parse_text(text, type_name) for text in texts]


def _find_digits(type_name: _TypeName) -> tuple[int, int] | None:
    """Return the largest numbers of digits before and after the point of a number type; None for other types."""
    if not isinstance(type_name, str):
        return None
    match = _DECIMAL.fullmatch(type_name)
    if match is None:
        return (_INTEGER_DIGITS[type_name], 0) if type_name in _INTEGER_DIGITS else None
    precision, scale = int(match[1]), int(match[2])
    return precision - scale, scale


def _is_supported(type_name: _TypeName) -> bool:
    if not isinstance(type_name, str):
        return False
    return type_name in _AS_TEXT or type_name in _INTERNAL or _DECIMAL.fullmatch(type_name) is not None


def _build_tree(flat: list[dict[str, Any]]) -> _Item:
    """Build a tree from Spark's JSON, which lists each expression before its children."""
    stack: list[_Item] = []
    for position in reversed(range(len(flat))):
        count = flat[position]["num-children"]
        children = [stack.pop() for _ in range(count)]
        stack.append(_Item(flat[position], position, children))
    (top,) = stack
    return top


def _find_struct_fields(item: _Item) -> list[dict[str, Any]]:
    if item.kind == "AttributeReference":
        struct = item.json["dataType"]
    elif item.kind == "GetStructField":
        struct = _find_struct_fields(item.children[0])[int(item.json["ordinal"])]["type"]
    else:
        raise _Unknown
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        raise _Unknown
    return struct["fields"]


def _is_variant_cast(item: _Item) -> bool:
    """Return whether an expression casts a Variant."""
    if item.kind != "Cast":
        return False
    (child,) = item.children
    if child.kind == "GetStructField":
        return bool(_find_struct_fields(child.children[0])[int(child.json["ordinal"])]["type"] == _VARIANT)
    types = {"AttributeReference": "dataType", "VariantGet": "targetType"}
    return child.kind in types and child.json[types[child.kind]] == _VARIANT


def _find_extracted(item: _Item) -> dict[str, Any] | None:
    """Return the field that Spark has made for a path of a Variant, if an expression is one; else None."""
    if item.kind != "GetStructField":
        return None
    field = _find_struct_fields(item.children[0])[int(item.json["ordinal"])]
    return field if _EXTRACTED in field.get("metadata", ()) else None


def _make_part(path: str, type_name: _TypeName, is_try: bool) -> VariantPart:
    """Return a part of a Variant by Spark's texts of its path and type."""
    if not isinstance(path, str) or not path.lstrip().startswith("$") or not isinstance(type_name, str):
        raise _Unknown
    try:
        return VariantPart(parse_path(path), parse_target(type_name), is_try)
    except PredicateError:
        raise _Unknown from None


def _parse_float32(text: str) -> float:
    # By Arrow, which rounds the text once: NumPy reads a double first, which makes another float of 7.038531E-26.
    return float(make_scalar(text, pa.string()).cast(pa.float32()).as_py())


_AS_TEXT: dict[str, Callable[[str], Literal]] = {
    **dict.fromkeys(_INTEGER_DIGITS, int),
    "float": _parse_float32,
    "double": float,
    "string": str,
    "boolean": lambda text: {"true": True, "false": False}[text],
}


def _parse_text(text: str, type_name: _TypeName) -> Literal:
    """Parse a literal from Java's text of it."""
    if not isinstance(type_name, str) or "\ufffd" in text:
        raise _Unknown  # invalid UTF-8 is shown as U+FFFD
    if type_name in _AS_TEXT:
        return _AS_TEXT[type_name](text)
    if _DECIMAL.fullmatch(type_name):
        return decimal.Decimal(text)
    raise _Unknown


def _convert_value(value: Any, type_name: _TypeName) -> Literal:
    """Convert a literal from Spark's internal value: days or microseconds since 1970, or bytes."""
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
