"""Choose what reads columns of some rows: a pure function of the columns' types and the numbers of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...file.pages.plan import FlatColumn, ListColumn
from ...file.pages.reader import SPARSE_FACTOR

FEW_OF = SPARSE_FACTOR
"""Rows are few if they are one of so many: taking them out of pages is faster then (`tools/bench/many_rows.py`)."""


MANY_ROWS, OTHER_TYPE = "many rows", "nested, or of a type that is not taken out of pages"
"""Why whole columns are decoded."""


class Choice(NamedTuple):
    """Which columns are read by which decoder, and why.

    Attributes
    ----------
    pages : columns whose rows are taken out of pages.
    columns : columns that pyarrow decodes whole.
    reason : why the latter are.
    """

    pages: list[str]
    columns: list[str]
    reason: str


def choose_decoder(
    columns: Mapping[str, FlatColumn | ListColumn], names: Sequence[str], num_rows: int, total_rows: int
) -> Choice:
    """Choose how columns are read in some rows.

    Parameters
    ----------
    columns : the files' flat columns, and those of lists, by name.
    names : columns to read.
    num_rows, total_rows : how many rows are read, and how many their row groups have.
    """
    if num_rows * FEW_OF > total_rows:
        return Choice([], list(names), MANY_ROWS)
    taken = [name for name in names if can_take(columns.get(name))]
    others = [name for name in names if name not in taken]
    return Choice(taken, others, OTHER_TYPE if others else "")


def can_take(column: FlatColumn | ListColumn | None) -> bool:
    """Return whether rows of a column can be taken out of its pages, as far as its type tells."""
    return column is not None and (isinstance(column, ListColumn) or column.layout is not None)
