"""The keys of a lookup: values of one column, or of several together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import PredicateError
from ...predicate import literal
from ...predicate.tree import Equal, In, Node, all_of


@dataclass(frozen=True)
class LookupKeys:
    """LookupKeys to find.

    Attributes
    ----------
    columns : of the key.
    literals : for each column, its literal in each key.
    is_single : whether the caller gave one key, not a collection of keys.
    """

    columns: tuple[str, ...]
    literals: tuple[tuple[Any, ...], ...]
    is_single: bool

    @classmethod
    def parse(cls, columns: str | Sequence[str], keys: Any) -> LookupKeys:
        """Return a caller's key or keys.

        Parameters
        ----------
        columns : one column, or a list of several.
        keys : of one column: a value, or a list, Arrow or NumPy array or Series of values. Of several: a tuple of a
            value of each, a list of such tuples, or a table or mapping that has these columns.

        Raises
        ------
        PredicateError
            A value is null, or cannot be a literal; or a key has not as many values as there are columns.
        """
        if isinstance(columns, str):
            names: tuple[str, ...] = (columns,)
            is_arrow = isinstance(keys, pa.Array | pa.ChunkedArray)
            is_single = not is_arrow and (not isinstance(keys, Collection) or isinstance(keys, str | bytes))
            is_single = is_single and (not hasattr(keys, "__array__") or np.ndim(keys) == 0)
            literals = [(literal.from_python(keys),) if is_single else literal.from_collection(keys)]
        else:
            names = tuple(columns)
            is_single = isinstance(keys, tuple)
            if not names:
                raise PredicateError("a key needs a column")
            if isinstance(keys, pa.Table | pa.RecordBatch | Mapping):
                columns_of_keys = [keys[name] for name in names]
            else:
                rows = [keys] if is_single else [*keys]
                for row in rows:
                    if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != len(names):
                        problem = f"a key of {len(names)} columns is a tuple of {len(names)} values, not {row!r}"
                        raise PredicateError(problem)
                columns_of_keys = [[row[i] for row in rows] for i in range(len(names))]
            literals = [literal.from_collection(values) for values in columns_of_keys]
        for name, values in zip(names, literals, strict=True):
            if None in values:
                raise PredicateError("a key is null: nothing equals it, leave it out", column=name)
        return cls(names, tuple(literals), is_single)

    def __len__(self) -> int:
        return len(self.literals[0])

    @cached_property
    def node(self) -> Node:
        """The predicate that all rows of the keys meet, and of one column no others."""
        leaves: list[Node] = []
        for column, values in zip(self.columns, self.literals, strict=True):
            leaves.append(Equal(column, values[0]) if len(values) == 1 else In(column, values))
        return all_of(leaves)
