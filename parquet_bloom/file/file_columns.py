"""Resolution of column names to leaves of a file's schema, and the types of leaves."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from ..errors import UnknownColumnError, UnusualPageError
from ..hashing.column_type import ColumnType, from_parquet
from ..metadata.footer import REPEATED, REQUIRED, SchemaLeaf, read_repetition
from ..metadata.page_decode import StoredColumn
from ..predicate.map_lookup import find_map, is_key
from ..variant.variant_path import VariantPath, parse_path
from ..variant.variant_type import METADATA, TYPED_VALUE, VALUE

WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 0}
"""The bytes per value of types that have a width, booleans taken out of their bits; 0 for byte arrays."""

_FEW_LEAVES = 64  # of a schema whose names need not be sorted
_MOST_SORTED = 32  # schemas whose sorted names are kept
_MOST_TYPES = 1024  # leaves whose types are kept
_BEHIND_DOT = chr(ord(".") + 1)


class Named(Protocol):
    """A leaf of a schema of any format; `name` is its dotted `path`."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> tuple[str, ...]: ...


AnyLeaf = TypeVar("AnyLeaf", bound=Named)


class _SortedNames:
    """The names of the leaves of a schema in order, so that none of them has to be compared with each name in turn.

    Parameters
    ----------
    leaves : the schema; may not change.
    ignore_case : whether names are compared without regard to case.
    """

    def __init__(self, leaves: Sequence[Named], ignore_case: bool):
        self.leaves = leaves
        names = [leaf.name.lower() if ignore_case else leaf.name for leaf in leaves]
        self._numbers = sorted(range(len(names)), key=names.__getitem__)
        self._names = [names[number] for number in self._numbers]

    def find(self, low: str, high: str) -> list[int]:
        """Return the numbers of the leaves with names from `low` up to, but not with, `high`; in schema order."""
        return sorted(self._numbers[bisect_left(self._names, low) : bisect_left(self._names, high)])


_sorted_names: OrderedDict[tuple[int, bool], _SortedNames] = OrderedDict()


def _sort_names(leaves: Sequence[Named], ignore_case: bool) -> _SortedNames:
    """Return the sorted names of a schema, which are kept for the schemas that were last asked for."""
    key = id(leaves), ignore_case
    found = _sorted_names.get(key)
    if found is None or found.leaves is not leaves:
        found = _sorted_names[key] = _SortedNames(leaves, ignore_case)
        while len(_sorted_names) > _MOST_SORTED:
            with suppress(KeyError):  # another thread may have removed the last one
                _sorted_names.popitem(last=False)
    return found


def find_leaves(leaves: Sequence[AnyLeaf], name: str, ignore_case: bool = False) -> list[AnyLeaf]:
    """Return the leaves of a given dotted path; if there are none, all leaves below a group of that path."""
    path = name.lower() if ignore_case else name
    if len(leaves) > _FEW_LEAVES:
        names = _sort_names(leaves, ignore_case)
        numbers = names.find(path, f"{path}\0") or names.find(f"{path}.", f"{path}{_BEHIND_DOT}")
        return [leaves[number] for number in numbers]
    exact, below = [], []
    for leaf in leaves:
        one = leaf.name.lower() if ignore_case else leaf.name
        if one == path:
            exact.append(leaf)
        elif one.startswith(path) and one[len(path)] == ".":
            below.append(leaf)
    return exact or below


def find_evidence_leaves(leaves: Sequence[SchemaLeaf], name: str, ignore_case: bool = False) -> list[SchemaLeaf]:
    """Return the leaves that evidence of a name is about: as `find_leaves`, or the keys or values of a map.

    These have the names of `predicate.map_lookup`, whatever names the file gives them. Where the map's keys or values
    are not single ones there are none.
    """
    container = find_map(name)
    found = find_leaves(leaves, container, ignore_case)
    if container == name or not found:
        return found
    path = found[0].path
    depth = next((depth for depth in range(len(path)) if len(".".join(path[: depth + 1])) >= len(container)), 0)
    members = found if len(found) == 2 and all(_is_in_map(leaf, depth) for leaf in found) else []
    return members[:1] if is_key(name) else members[1:]


def _is_in_map(leaf: SchemaLeaf, depth: int) -> bool:
    """Return whether a leaf is the key or value of a map, given the number of groups around this."""
    if len(leaf.path) != depth + 3 or leaf.nodes[depth + 1].get(_REPETITION) != _REPEATED:
        return False
    node = leaf.nodes[depth]
    logical = node.get(_LOGICAL)
    return node.get(_CONVERTED) in _MAPS or (isinstance(logical, dict) and _MAP in logical)


def spellings(leaves: Sequence[Named], name: str) -> list[str]:
    """Return the distinct spellings of a case-insensitive name in a schema; none if it has no such column."""
    return list(dict.fromkeys(leaf.name[: len(name)] for leaf in find_leaves(leaves, name, ignore_case=True)))


class ShreddedPath(NamedTuple):
    """The columns of a file that what a Variant has at a path is stored in.

    Attributes
    ----------
    typed : what is of the type that is shredded to: one leaf, or those of an object or array. A path into an array has
        all that the array has.
    leaf : the one that has a single value in each row; None if there is no such column.
    residuals : what is of other types: of the groups around the path, and last of the path itself.
    metadata : the names of fields that residuals refer to; it is in the Variant's own group.
    """

    typed: tuple[SchemaLeaf, ...]
    leaf: SchemaLeaf | None
    residuals: tuple[SchemaLeaf, ...]
    metadata: SchemaLeaf


def find_variant_path(
    leaves: Sequence[SchemaLeaf], column: str, path: VariantPath, ignore_case: bool = False
) -> ShreddedPath | None:
    """Return where a file stores what a Variant has at a path; None if the column of this name is no Variant.

    A Variant is a group of `metadata`, `value` and perhaps `typed_value`, by name, with or without the annotation,
    and not in a list. The fields of an object that have columns of their own are groups of `value` and `typed_value`
    within the object's `typed_value`. Source: the Parquet format's VariantShredding.md.

    Parameters
    ----------
    ignore_case : of the Variant's own name: the names in its path are compared as they are.
    """
    found = find_leaves(leaves, column, ignore_case)
    names = found[0].path if found else ()
    depth = next((depth for depth in range(1, len(names)) if len(".".join(names[:depth])) == len(column)), 0)
    group = names[:depth]
    by_path = {leaf.path: leaf for leaf in found if leaf.path[:depth] == group}
    metadata = by_path.get((*group, METADATA))
    if metadata is None or metadata.physical != "BYTE_ARRAY" or metadata.repeated:
        return None
    if not depth or len(by_path) < len(found):
        return None
    groups = [group]
    for step in path.parts:
        if isinstance(step, int):
            break
        group = (*group, TYPED_VALUE, step)
        groups.append(group)
    typed_value = (*group, TYPED_VALUE)
    typed = tuple(leaf for leaf in found if leaf.path[: len(typed_value)] == typed_value)
    leaf = by_path.get(typed_value) if len(groups) > len(path.parts) else None
    residuals = (by_path.get((*group, VALUE)) for group in groups)
    return ShreddedPath(
        typed,
        None if leaf is None or leaf.repeated else leaf,
        tuple(one for one in residuals if one is not None),
        metadata,
    )


def find_variant_parts(leaves: Sequence[SchemaLeaf], column: str, path: VariantPath) -> list[str]:
    """Return the columns that what a Variant has at a path is read from, as `select_leaves` takes them.

    The column as a whole if it is no Variant, or has a dot in its name.
    """
    found = find_variant_path(leaves, column, path)
    if found is None or found.metadata.path[:-1] != tuple(column.split(".")):
        return [column]
    return [leaf.name for leaf in (found.metadata, *found.residuals, *found.typed)]


def is_variant_group(node: Mapping[int, object]) -> bool:
    """Return whether an element of a schema is a group with the annotation of Variants; see `SchemaLeaf.nodes`."""
    logical = node.get(_LOGICAL)
    return isinstance(logical, dict) and _VARIANT in logical


def find_encoded_parts(leaves: Sequence[SchemaLeaf]) -> set[int]:
    """Return the numbers of columns that have Variants, or parts of them, in their own encoding.

    Of groups without the annotation only those count that are shredded: others may be structs of such names.
    """
    groups = {leaf.path[:-1] for leaf in leaves if leaf.path[-1] == METADATA and len(leaf.path) > 1}
    shredded = {leaf.path[: leaf.path.index(TYPED_VALUE)] for leaf in leaves if TYPED_VALUE in leaf.path}
    found = set()
    for leaf in leaves if groups else ():
        depth = next((depth for depth in range(1, len(leaf.path)) if leaf.path[:depth] in groups), 0)
        is_encoded = depth > 0 and leaf.path[-1] in (METADATA, VALUE)
        if is_encoded and (leaf.path[:depth] in shredded or is_variant_group(leaf.nodes[depth - 1])):
            found.add(leaf.index)
    return found


def find_columns(leaves: Sequence[AnyLeaf], name: str, ignore_case: bool = False) -> list[AnyLeaf]:
    """Return the leaves of a name, or the column of a path of a Variant, such as `v:a.b`; none if there are none.

    Parameters
    ----------
    ignore_case : of names of columns: those in a path are compared as they are.
    """
    return find_leaves(leaves, name, ignore_case) or _find_named_path(leaves, name, ignore_case)


def split_path_names(name: str) -> Iterator[tuple[str, str]]:
    """Yield a column and the path behind it for each colon of a name such as `v:a.b`: both may have colons, too."""
    at = name.find(":", 1)
    while at > 0:
        yield name[:at], name[at + 1 :]
        at = name.find(":", at + 1)


def _find_named_path(leaves: Sequence[AnyLeaf], name: str, ignore_case: bool) -> list[AnyLeaf]:
    for column, text in split_path_names(name):
        metadata = find_leaves(leaves, f"{column}.{METADATA}", ignore_case)
        if metadata and isinstance(metadata[0], SchemaLeaf):  # ORC files store no paths as columns
            path = _parse_named_path(text)
            found = find_variant_path(leaves, column, path, ignore_case)  # type: ignore[arg-type]
            return [found.leaf] if found is not None and found.leaf is not None else []  # type: ignore[list-item]
    return []


def _parse_named_path(text: str) -> VariantPath:
    """Parse what stands behind the colon of a path's name; it may begin with a position."""
    return parse_path(f"${text}" if text.startswith("[") else text)


def find_stored_path(names: Sequence[str], name: str) -> str | None:
    """Return which of the dotted names of columns is that of a path of a Variant, such as `v:a.b`; None if none is."""
    for column, text in split_path_names(name):
        if any(one.startswith(f"{column}.{TYPED_VALUE}.") for one in names):
            steps = _parse_named_path(text).parts
            stored = ".".join([column, *(part for step in steps for part in (TYPED_VALUE, str(step))), TYPED_VALUE])
            return stored if stored in names else None
    return None


def _advise_path(leaves: Sequence[Named], name: str) -> str:
    """Return what to name instead of a Variant, or of a path in one that no column stores; "" if it is no Variant."""
    paths = {leaf.path for leaf in leaves}
    for column in [name, *(column for column, _ in split_path_names(name))]:
        group = tuple(column.split("."))
        if {(*group, METADATA), (*group, VALUE)} <= paths:
            break
    else:
        return ""
    depth, stored = len(group), []
    for leaf in leaves:
        steps = leaf.path[depth:]
        if leaf.path[:depth] == group and len(steps) % 2 and len(steps) > 1 and set(steps[::2]) == {TYPED_VALUE}:
            stored.append(f"{column}:{VariantPath(steps[1::2])}".replace(":$.", ":"))
    text = name[len(column) + 1 :]
    path, _, typed = text.partition("::")
    if typed and f"{column}:{path}" in stored:
        return f"stored paths are named without a type: {column}:{path}"
    if stored:
        names = ", ".join(stored[:8]) + (", ..." if len(stored) > 8 else "")
        return f"the file stores these paths of the Variant as columns: {names}; an index takes any path"
    if not text:  # it may be a struct of such names
        return ""
    example = name if typed else f"{name}::STRING"
    return f"the file stores no path of the Variant as a column; an index takes any path: {example}, say"


def find_leaf(leaves: Sequence[AnyLeaf], name: str, path: str | None = None) -> AnyLeaf:
    """Return the one leaf of a given name, or path of a Variant; what has a single leaf may be given by its own name.

    Raises
    ------
    UnknownColumnError
        There is no such column, or more than one: a group's leaves, or leaves of the same dotted path.
    """
    matches = find_columns(leaves, name)
    if len(matches) == 1:
        return matches[0]
    if advice := _advise_path(leaves, name):
        raise UnknownColumnError(advice, path=path, column=name)
    if not matches:
        names = ", ".join(leaf.name for leaf in leaves[:8]) + (", ..." if len(leaves) > 8 else "")
        raise UnknownColumnError(f"no such column; there are: {names}", path=path, column=name)
    choices = ", ".join(".".join(leaf.path) for leaf in matches[:8])
    raise UnknownColumnError(f"several columns match the name: {choices}", path=path, column=name)


def find_sole_leaf(leaves: Sequence[AnyLeaf], name: str, path: str | None = None) -> AnyLeaf:
    """Return the one leaf of a name that no other column has in another case: queries that ignore case may mean that.

    Raises
    ------
    UnknownColumnError
        There is none, or more than one.
    """
    found = find_leaves(leaves, name)
    if len(found) != 1:
        problem = "no such column" if not found else f"the name matches {len(found)} columns"
        raise UnknownColumnError(problem, path=path, column=name)
    start = f"{name}.".lower()
    if any(f"{other.name}.".lower().startswith(start) for other in leaves if other is not found[0]):
        raise UnknownColumnError("other columns differ from it by their case only", path=path, column=name)
    return found[0]


def holds_elements(leaf: SchemaLeaf, name: str, ignore_case: bool = False) -> bool:
    """Return whether a leaf holds the elements of a list of a given name, each a single value.

    Recognizes the list layouts of the format's LogicalTypes.md, old ones included: a repeated leaf by itself; a group
    annotated as a list around a repeated leaf, or around a repeated group of a single leaf. The name of the elements
    does not matter. The name may also be that of the leaf itself.

    Parameters
    ----------
    leaf, name, ignore_case : a leaf that `find_leaves` returns for the name of the leaf or of a group around it.
    """
    repeated = [depth for depth, node in enumerate(leaf.nodes) if node.get(_REPETITION) == _REPEATED]
    if len(repeated) != 1:
        return False
    names = [".".join(leaf.path[: depth + 1]) for depth in range(len(leaf.path))]
    if ignore_case:
        name, names = name.lower(), [one.lower() for one in names]
    if name not in names:
        return False
    depth = names.index(name)
    below = len(leaf.path) - 1 - depth
    if below == 0:
        return True
    node, repeated_name = leaf.nodes[depth], leaf.path[repeated[0]]
    logical = node.get(_LOGICAL)
    is_list = node.get(_CONVERTED) == _LIST or (isinstance(logical, dict) and _LIST in logical)
    if not is_list or repeated[0] != depth + 1:
        return False
    # A repeated group of one leaf that has one of these names is a struct, which is the element.
    return below == 1 or (below == 2 and repeated_name not in ("array", leaf.path[depth] + "_tuple"))


# Fields of a schema's element, and two of their values.
_REPETITION, _CONVERTED, _LOGICAL = 3, 6, 10
_REPEATED, _LIST = 2, 3
_VARIANT = 16  # a LogicalType
_MAP, _MAPS = 2, (1, 2)  # a LogicalType; ConvertedTypes MAP and, in old files, MAP_KEY_VALUE


def select_leaves(leaves: Sequence[SchemaLeaf], names: Sequence[str] | None) -> list[SchemaLeaf]:
    """Return the leaves of some columns, given as `pyarrow.parquet` takes them; None for all."""
    if names is None:
        return list(leaves)
    requested, selected = {*names}, []
    for leaf in leaves:
        for depth in range(1, len(leaf.path) + 1):
            if ".".join(leaf.path[:depth]) in requested:
                selected.append(leaf)
                break
    return selected


@lru_cache(maxsize=_MOST_TYPES)
def type_of(leaf: SchemaLeaf) -> ColumnType:
    """Return the type of a leaf's values; an unknown one if they are repeated in a way that is not known."""
    logical = leaf.logical if leaf.known_repetition else {-1: {}}
    return from_parquet(leaf.physical, leaf.length, leaf.converted, logical, leaf.scale, leaf.precision)


def stored_column(leaf: SchemaLeaf) -> StoredColumn:
    """Return how the values of a column are stored.

    Raises
    ------
    UnusualPageError
        They are of an unknown width, in lists that are too deep, or repeated in a way that is not known.
    """
    if not leaf.known_repetition:
        raise UnusualPageError("a repetition that is not known")
    width = WIDTHS.get(leaf.physical, leaf.length or None)
    if width is None:
        raise UnusualPageError(f"{leaf.physical} of no bytes")
    levels, definition = [0], 0
    for node in leaf.nodes:
        repetition = read_repetition(node)
        definition += repetition != REQUIRED
        if repetition == REPEATED:
            levels.append(definition)
    return StoredColumn(width, levels, definition)
