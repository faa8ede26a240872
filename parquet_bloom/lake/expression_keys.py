"""Keys of expressions: which parts of a predicate they decide, and the hashes of looked-up values."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError
from ..file.column_hashes import combine_hashes
from ..hashing.coerce import HashedLiterals, hash_literals
from ..hashing.column_type import ColumnType, from_arrow
from ..hashing.gram_weights import hash_grams
from ..predicate import tree
from ..predicate.calls import add_other, hash_texts
from ..predicate.key_expression import GRAMS, PATH, TUPLE, KeyExpression
from ..predicate.literal import from_collection, from_python
from ..predicate.pattern_pieces import find_pieces
from ..predicate.pruning_statistics import KeyHasher
from ..predicate.tree import (
    CallIn,
    Connective,
    Equal,
    In,
    Leaf,
    Node,
    Or,
    PatternLeaf,
    VariantLookup,
    all_of,
    any_of,
    call_text,
)
from ..predicate.variant_names import to_arrow_type

TEXT = from_arrow(pa.string())

_MOST_TUPLES = 10_000  # of the values of an AND; with more, its columns are searched one by one


# -------------------------------------------------------------------------------------------------- looked-up values


def parse_literals(values: object, column: str) -> list[object]:
    """Return a caller's values as literals.

    Raises
    ------
    PredicateError
        The argument is not a list of values, or contains a null: nulls are not indexed.
    """
    if type(values) is list and len(values) == 1 and type(values[0]) in (int, str):
        return values
    try:
        literals: list[object] = list(from_collection(values))
    except PredicateError as error:
        problem = error.problem.replace("'in' takes", "values are")
        raise PredicateError(problem, column=column) from None
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise PredicateError(f"values are not literals: {error}", column=column) from None
    if None in literals:
        raise PredicateError("nulls are not indexed: a null is in no list of values", column=column)
    return literals


def parse_key_literals(values: object, expression: KeyExpression) -> list[object]:
    """Return a caller's values of an expression: texts, tuples of literals, or literals of a path's type.

    Raises
    ------
    PredicateError
        The argument is not a list of such values, or contains a null: nulls are not indexed.
    """
    if expression.function == GRAMS:
        raise PredicateError("grams are asked for by a predicate, such as that of `prune` or `find`", column=expression)
    if expression.function == PATH:
        return parse_literals(values, expression)
    if expression.function != TUPLE:
        literals = parse_literals(values, expression)
        if not all(isinstance(literal, str) for literal in literals):
            raise PredicateError(f"{expression} is a text: values are texts", column=expression)
        return literals
    count = len(expression.columns)
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise PredicateError(f"values are tuples of {count} values, in a list", column=expression)
    tuples: list[object] = []
    for value in values:
        if not isinstance(value, tuple | list) or len(value) != count:
            raise PredicateError(f"values are tuples of {count} values, not {value!r}", column=expression)
        parts = tuple(from_python(part) for part in value)
        if None in parts:
            raise PredicateError("nulls are not indexed: a null is in no list of values", column=expression)
        tuples.append(parts)
    return tuples


def hash_key_literals(
    expression: KeyExpression, literals: Sequence[Any], types: Sequence[ColumnType], timezone: str
) -> HashedLiterals:
    """Return the hashes of values of an expression.

    Parameters
    ----------
    literals : as `parse_key_literals` returns them.
    types : stored types of the expression's columns.
    """
    if expression.function == TUPLE:
        return _hash_tuples([*zip(*literals, strict=True)], types, timezone)
    probes = hash_literals(literals, find_value_type(expression), timezone)
    return HashedLiterals(add_other(probes.hashes), np.repeat(probes.literals, 2), probes.reasons)


def find_value_type(expression: KeyExpression) -> ColumnType:
    """Return the type of what leaves compare an expression with: of tuples, the texts of positions."""
    return from_arrow(to_arrow_type(expression.target)) if expression.function == PATH else TEXT


def _hash_tuples(parts: Sequence[Sequence[object]], types: Sequence[ColumnType], timezone: str) -> HashedLiterals:
    """Return the hashes of tuples, given the literals of each part."""
    if not parts:
        return HashedLiterals(np.empty(0, np.uint64), np.empty(0, np.intp), {})
    count = len(parts[0])
    found = [hash_literals(literals, column_type, timezone) for literals, column_type in zip(parts, types, strict=True)]
    unknown: dict[int, str] = {}
    for probes in found:
        unknown = {**probes.reasons, **unknown}
    if all(len(probes.literals) == count and (probes.literals == np.arange(count)).all() for probes in found):
        return HashedLiterals(combine_hashes([probes.hashes for probes in found]), np.arange(count), unknown)
    # A literal may have several stored forms, or none.
    ends = [np.searchsorted(probes.literals, np.arange(count + 1)).tolist() for probes in found]
    rows, values = [], []
    for i in range(count):
        forms = [probes.hashes[end[i] : end[i + 1]].tolist() for probes, end in zip(found, ends, strict=True)]
        for row in product(*forms):
            rows.append(row)
            values.append(i)
    hashes = np.array(rows, np.uint64).reshape(len(rows), len(parts))
    return HashedLiterals(combine_hashes([*hashes.T]), np.array(values, np.intp), unknown)


def find_tuples(
    expressions: Iterable[KeyExpression],
    columns: Sequence[str],
    literals: Sequence[Sequence[object]],
    excluded: Collection[str],
) -> list[tuple[KeyExpression, list[tuple[object, ...]]]]:
    """Return the tuples that keys of some columns consist of, each with its value in each key.

    Parameters
    ----------
    columns, literals : columns of the keys, and the literals of each column, as many as there are keys.
    excluded : columns that are not in the files.
    """
    values = {column: parts for column, parts in zip(columns, literals, strict=True) if column not in excluded}
    return [
        (expression, [*zip(*(values[column] for column in expression.columns), strict=True)])
        for expression in expressions
        if expression.function == TUPLE and values.keys() >= set(expression.columns)
    ]


# ------------------------------------------------------------------------------------------------------- predicates


@dataclass(eq=False)
class IndexedKey:
    """An expression of an index that decides some leaves of a predicate.

    Attributes
    ----------
    expression : of the index.
    tuples : for a tuple, the literals of its columns; the leaves have the positions in this list as texts.
    timezone : of literals.
    """

    expression: KeyExpression
    timezone: str
    tuples: list[tuple[object, ...]] = field(default_factory=list)
    _hashers: dict[tuple[ColumnType, ...], KeyHasher | None] = field(default_factory=dict)

    def find_hasher(self, types: tuple[ColumnType, ...]) -> KeyHasher | None:
        """Return what computes the hashes of the leaves' texts; None if they cannot be known.

        Parameters
        ----------
        types : stored types of the expression's columns.
        """
        if self.expression.function == GRAMS:
            return _hash_lowered_grams if self.expression.case else _hash_grams
        if self.expression.function != TUPLE:
            return hash_texts
        if types not in self._hashers:  # threads that arrive here together all use the first one
            self._hashers.setdefault(types, self._make_hasher(types))
        return self._hashers[types]

    def _make_hasher(self, types: tuple[ColumnType, ...]) -> KeyHasher | None:
        probes = hash_key_literals(self.expression, self.tuples, types, self.timezone)
        if probes.reasons:
            return None
        ends = np.searchsorted(probes.literals, np.arange(len(self.tuples) + 1))

        def hash_positions(values: Sequence[Any], _: ColumnType) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
            positions = [int(value) for value in values]
            pieces = [probes.hashes[ends[position] : ends[position + 1]] for position in positions]
            first = np.zeros(len(pieces) + 1, np.intp)
            np.cumsum([len(piece) for piece in pieces], out=first[1:])
            return np.concatenate(pieces) if pieces else np.empty(0, np.uint64), first

        return hash_positions


def _hash_grams(values: Sequence[Any], _: ColumnType) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes of grams, given by their texts as `_make_text` makes them; see `coerce.hash_all`."""
    return hash_grams([value.decode().encode("latin-1") for value in values]), np.arange(len(values) + 1)


def _hash_lowered_grams(values: Sequence[Any], _: ColumnType) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    hashes, first = _hash_grams(values, TEXT)
    return add_other(hashes), 2 * first


def _make_text(gram: bytes) -> str:
    """Return a text that stands for a gram, which may be a part of a character, in a predicate."""
    return gram.decode("latin-1")


def _explain_missing(usable: Sequence[KeyExpression], leaf: PatternLeaf) -> str:
    """Return why there are no grams to ask for of a leaf over a column that has grams."""
    if not any(one.case for one in usable) and find_pieces(leaf, lowered=True):
        return f"that takes {KeyExpression(GRAMS, usable[0].columns, 'lower')}"
    if leaf.function not in ("", "lower"):
        return f"they are not those of {call_text(leaf.function, leaf.column)}"
    return "no text of 3 bytes or more has to be there"


class KeyPredicate:
    """A predicate with leaves over the expressions of an index, where it has such.

    Parameters
    ----------
    node, timezone, ignore_case : the predicate and its options.
    expressions : of the index.

    Attributes
    ----------
    node : the predicate; a leaf over an expression compares its name with texts.
    by_name : the expressions by the names that they have there, which no column of the predicate has.
    grams : {name: {hash of a gram that is asked for: the gram's bytes}}.
    without_grams : of leaves over columns with grams that no gram decides, why.
    """

    def __init__(self, node: Node, expressions: Sequence[KeyExpression], timezone: str, ignore_case: bool):
        self.by_name: dict[str, IndexedKey] = {}
        self.grams: dict[str, dict[int, bytes]] = {}
        self.without_grams: list[str] = []
        self._timezone = timezone
        self._ignore_case = ignore_case
        self._taken = tree.columns(node)
        self._calls = [expression for expression in expressions if expression.function in tree.FUNCTIONS]
        self._grams = [expression for expression in expressions if expression.function == GRAMS]
        self._tuples = [expression for expression in expressions if expression.function == TUPLE]
        self._paths = [expression for expression in expressions if expression.function == PATH]
        self.node = tree.fold(node, self._replace_leaf, self._add_tuples) if expressions else node

    def _replace_leaf(self, leaf: Leaf) -> Node:
        if isinstance(leaf, CallIn):
            return self._replace_call(leaf)
        if isinstance(leaf, VariantLookup):
            return self._replace_path(leaf)
        return self._add_grams(leaf) if self._grams else leaf

    def _add_grams(self, leaf: Leaf) -> Node:
        """Return a leaf, and that its value has the grams of what it has to contain."""
        usable = [one for one in self._grams if one.weights and self._is_same(one.columns[0], leaf.column)]
        if not usable or not isinstance(leaf, PatternLeaf):
            return leaf
        usable.sort(key=lambda one: one.case)  # those of the column itself tell more than those of its lower case
        found = ([*self._require_grams(one, leaf)] for one in usable)
        added: list[Node] = next(filter(None, found), [])
        if not added:
            names = " and ".join(usable)
            self.without_grams.append(f"{names} cannot tell where {leaf}: {_explain_missing(usable, leaf)}")
        return all_of([leaf, *added])

    def _require_grams(self, expression: KeyExpression, leaf: PatternLeaf) -> Iterator[Node]:
        """Yield conditions on the grams of values for which a leaf is true."""
        assert expression.weights is not None
        for pieces in find_pieces(leaf, lowered=bool(expression.case)):
            grams = [expression.weights.choose_grams(piece.encode("utf-8", "surrogatepass")) for piece in pieces]
            if not all(grams):
                continue
            name = self._name(expression)
            every = [gram for some in grams for gram in some]
            hashes = hash_grams(every).tolist()
            self.grams.setdefault(name, {}).update(zip(hashes, every, strict=True))
            yield any_of(all_of(In(name, (_make_text(gram),)) for gram in some) for some in grams)

    def _replace_call(self, leaf: CallIn) -> Node:
        same = [
            expression
            for expression in self._calls
            if expression.function == leaf.function and self._is_same(expression.columns[0], leaf.column)
        ]
        return In(self._name(same[0]), leaf.values) if len(same) == 1 else leaf

    def _replace_path(self, leaf: VariantLookup) -> Node:
        same = [
            expression
            for expression in self._paths
            if (expression.path, expression.target) == (leaf.path, leaf.target)
            and self._is_same(expression.columns[0], leaf.column)
        ]
        if len(same) != 1 or not isinstance(leaf.condition, Equal | In):
            return leaf
        return tree.rename_columns(leaf.condition, {leaf.column: self._name(same[0])})

    def _add_tuples(self, connective: Connective, children: list[Node]) -> Node:
        if isinstance(connective, Or):
            return any_of(children)
        values: dict[str, tuple[object, ...]] = {}
        for child in children:
            if isinstance(child, Equal | In):
                values.setdefault(child.column, tuple(value for value in child.literals if value is not None))
        added: list[Node] = []
        for expression in self._tuples:
            found = [self._find_values(values, column) for column in expression.columns]
            parts = [part for part in found if part is not None]
            if len(parts) == len(found) and math.prod(map(len, parts)) <= _MOST_TUPLES:
                name = self._name(expression)
                tuples = self.by_name[name].tuples
                start = len(tuples)
                tuples += product(*parts)
                added.append(In(name, tuple(map(str, range(start, len(tuples))))))
        return all_of([*children, *added])

    def _find_values(self, values: dict[str, tuple[object, ...]], column: str) -> tuple[object, ...] | None:
        same = [name for name in values if self._is_same(column, name)]
        return values[same[0]] if len(same) == 1 else None

    def _is_same(self, column: str, name: str) -> bool:
        return column == name or (self._ignore_case and column.lower() == name.lower())

    def _name(self, expression: KeyExpression) -> str:
        for name, key in self.by_name.items():
            if key.expression is expression:
                return name
        name = str(expression)
        while name in self._taken:  # a column has that very name
            name += " "
        self.by_name[name] = IndexedKey(expression, self._timezone)
        return name
