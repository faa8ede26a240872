"""Where the files that Spark lists stand: the folder that its partitions begin at, and their values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pyspark.sql.types import ByteType, DataType, DateType, IntegerType, LongType, ShortType, StringType, StructType

from ...hashing.coerce import parse_date
from ...hashing.column_type import ColumnType, Domain, Kind
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.statistics import PruningStatistics
from ...predicate.tree import Leaf, Node
from ..session.fallback import CannotPush
from ..session.fields import Field, folded
from ..session.paths import is_pattern, normal_path, place_of

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9a-fA-F]{2})")
_EPOCH_DAY = 719_163  # date(1970, 1, 1).toordinal()
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class Layout:
    """How a DataFrame's files are laid out.

    Attributes
    ----------
    base : folder that the partitions' folders begin at; None if there are none.
    columns : partition columns, as the schema spells them.
    values : each file's partition values as texts; None for NULL.
    """

    base: str | None = None
    columns: tuple[str, ...] = ()
    values: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    @property
    def base_path(self) -> str | None:
        """The base as the reader's option of that name takes it."""
        return self.base if self.base is None or place_of(self.base) else f"file://{self.base}"

    def evidence(self, file: str, schema: StructType) -> dict[str, PruningStatistics | None]:
        """What the folder tells of a file's partition columns."""
        return {
            name: _evidence(schema[name].dataType, value)
            for name, value in zip(self.columns, self.values.get(file, ()), strict=True)
        }


class FoldersLeft:
    """`prune.plan.Left`: what the values of partition columns have left of a predicate.

    Parameters
    ----------
    node : the predicate.
    fields : the column that each name of it means.
    layout, schema : of the DataFrame.
    """

    doubts: tuple[str, ...] = ()

    def __init__(self, node: Node, fields: Mapping[str, Field], layout: Layout, schema: StructType):
        self._node = node
        self._layout = layout
        self._schema = schema
        self._columns = {name: item.path[0] for name, item in fields.items() if item.path[0] in layout.columns}
        self._known: dict[tuple[str | None, ...], Node | bool] = {}
        self._same: dict[Node | bool, Node | bool] = {}

    @property
    def whole(self) -> bool:
        return not self._columns

    def of(self, path: str) -> Node | bool:
        values = self._layout.values.get(path, ())
        if values not in self._known:
            evidence = self._layout.evidence(path, self._schema)

            def leaf(item: Leaf) -> Node | bool:
                column = self._columns.get(item.column)
                return (
                    item
                    if column is None
                    else PruningPredicate(item).decide({item.column: evidence.get(column)}).possible
                )

            left = tree.find_residual(self._node, leaf)
            self._known[values] = self._same.setdefault(left, left)  # equal ones are one object, and judged together
        return self._known[values]

    def told(self, path: str) -> str:
        pairs = zip(self._layout.columns, self._layout.values.get(path, ()), strict=True)
        said = ", ".join(f"{name} is {'null' if value is None else value}" for name, value in pairs)
        return f"its folder says {said}"


def find_layout(
    files: Sequence[str], paths: Sequence[str], options: Mapping[str, Any], schema: StructType, ignore_case: bool
) -> Layout:
    """Work out how Spark understood the folders of the files that it listed.

    Parameters
    ----------
    files : as `listed_path` gives them.
    paths : what the reader was given.
    options : the reader's options.
    schema : what it made of them.

    Raises
    ------
    Doubt
        It may have understood them in several ways.
    """
    given = {name.lower(): str(value) for name, value in options.items()}
    place = place_of(files[0]) if files else ""
    roots = [normal_path(path, place) for path in paths]
    _refuse_overlap(roots, paths)
    if given.get("recursivefilelookup", "").lower() == "true":
        return Layout()
    base_path = normal_path(given["basepath"], place) if "basepath" in given else None
    bases: set[str] = set()
    names: set[tuple[str, ...]] = set()
    values = {}
    for file in files:
        base = base_path or _base_of(file, roots)
        if not file.startswith(base.rstrip("/") + "/"):
            raise CannotPush(f"{file} is not below {base}")
        folders = os.path.dirname(file)[len(base.rstrip("/")) :].strip("/")
        pairs = [partition_pair(folder) for folder in folders.split("/") if folder]
        if not all(pairs) and any(pairs):
            raise CannotPush(f"some of the folders of {file} are partitions, and some are not")
        known = [pair for pair in pairs if pair]
        bases.add(base)
        names.add(tuple(name for name, _ in known))
        values[file] = tuple(value for _, value in known)
    if len(names) > 1:
        raise CannotPush("the files' folders have different partition columns")
    (columns,) = names or {()}
    if not columns:
        return Layout()
    if len(bases) > 1:
        raise CannotPush("partitions begin at several folders")
    return Layout(bases.pop(), tuple(_column(name, schema, ignore_case) for name in columns), values)


def _refuse_overlap(roots: Sequence[str], paths: Sequence[str]) -> None:
    """Spark reads a file as often as it is given; lists of files name it once."""
    if len(roots) == 1:
        if "{" in paths[0] and not os.path.lexists(roots[0]):
            raise CannotPush("the alternatives of a pattern may name a file twice")
        return
    if any(is_pattern(path) and not os.path.lexists(root) for root, path in zip(roots, paths, strict=True)):
        raise CannotPush("patterns among several paths may name a file twice")
    ordered = sorted(root.split("/") for root in roots)  # whatever is below a folder comes right behind it
    for one, other in pairwise(ordered):
        if other[: len(one)] == one:
            raise CannotPush(f"{'/'.join(other)} is given twice")


def _base_of(file: str, roots: Sequence[str]) -> str:
    """The folder that partitions of a file can begin at: that of the path by which it was found."""
    for root in roots:
        if file == root:
            return os.path.dirname(file)
        if file.startswith(root.rstrip("/") + "/"):
            return root
    if len(roots) == 1 and is_pattern(roots[0]):  # each part of a pattern stands for one folder
        parts = file.split("/")
        matched = "/".join(parts[: len(roots[0].split("/"))])
        return os.path.dirname(file) if matched == file else matched
    raise CannotPush(f"{file} is below none of the paths given")


def partition_pair(folder: str) -> tuple[str, str | None] | None:
    """A folder's column and value as Spark reads them; None if it is no partition's."""
    name, sign, value = folder.partition("=")
    if not sign:
        return None
    return _unescaped(name), None if value == _NULL else _unescaped(value)


def _unescaped(text: str) -> str:
    """A folder's name as Spark reads it: each escape is one character."""
    return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), text)


def _column(name: str, schema: StructType, ignore_case: bool) -> str:
    found = [own for own in schema.names if folded(own, ignore_case) == folded(name, ignore_case)]
    if len(found) != 1:
        raise CannotPush(f"the folders' partition column '{name}' is not in the schema")
    return found[0]


_TEXT = ColumnType("BYTE_ARRAY", Kind.STRING, name="STRING")
_NUMBER = ColumnType("INT64", Kind.INTEGER, 8, bits=64)
_DAY = ColumnType("INT32", Kind.DATE, 4, name="DATE")


def _evidence(data_type: DataType, value: str | None) -> PruningStatistics | None:
    """A partition's one value as both bounds of a column; None where it is not surely what Spark reads."""
    found: tuple[ColumnType, Domain] | None = None
    if value is None:
        return PruningStatistics(_TEXT, has_values=False)
    if type(data_type) is StringType:
        found = _TEXT, value.encode("utf-8", "surrogateescape")
    elif isinstance(data_type, ByteType | ShortType | IntegerType | LongType) and _WHOLE.fullmatch(value):
        found = _NUMBER, int(value)
    elif isinstance(data_type, DateType) and value.isascii():
        day = parse_date(value)
        found = None if day is None or len(value) != 10 else (_DAY, day.toordinal() - _EPOCH_DAY)
    return None if found is None else PruningStatistics(found[0], True, found[1], found[1])
