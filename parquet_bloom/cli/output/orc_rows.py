"""Open files that may be ORC files, and make a row for each filter of an ORC file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...file.bloom_file import BloomFile, parse_variant
from ...file.file_columns import find_leaves
from ...file.metadata_cache import MetadataCache
from ...scan.model.data_file import open_any
from ...storage import open_source
from .row_formats import Column, text_or_blank

if TYPE_CHECKING:
    from ...orc import OrcFile, OrcFilter


def _is_parquet(row: Any) -> bool:
    return row["stripe"] is None


STRIPE = Column("stripe", "stripe", right=True, rare=_is_parquet)
STREAM = Column("stream", "stream", rare=_is_parquet, folds=True)
FUNCTIONS = Column("num_hash_functions", "k", right=True, rare=_is_parquet)
DOUBT = Column("doubt", "not asked, as", text=text_or_blank, rare=lambda row: row["doubt"] is None, folds=True)


@contextmanager
def open_file(
    path: str, filesystem: object | None, variant: str | None = None, footers: MetadataCache | None = None
) -> Iterator[BloomFile | OrcFile]:
    """Open a Parquet or an ORC file, detected by its content; `variant` is for Parquet files, as in `open`.

    Parameters
    ----------
    footers : footers in which columns have the names that a table gives them; None for those of the file.

    Raises
    ------
    ParquetBloomError
        The file is neither, or cannot be read.
    """
    with open_source(path, filesystem) as source:
        yield open_any(source, footers, parse_variant(variant))


def iter_filter_rows(
    file: OrcFile, columns: Collection[str], row_groups: Collection[int], missing: set[str], keys: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row per filter, as `show` prints them.

    Parameters
    ----------
    file : the file.
    columns, row_groups : columns and row groups to show, the latter numbered across stripes; all if empty.
    missing : names that no file had so far; those that this file has are removed.
    keys : keys of a row.
    """
    names = None
    if columns:
        matches = {name: find_leaves(file.leaves, name) for name in columns}
        missing.difference_update(name for name in columns if matches[name])
        indices = {leaf.index for name in columns for leaf in matches[name]}
        names = [leaf.name for leaf in file.leaves if leaf.index in indices]
        if not names:
            return
    numbers = {(group.stripe, group.row_group): group.number for group in file.row_groups}
    for one in file.filters(names):
        number = numbers.get((one.stripe, one.row_group))
        if not row_groups or number in row_groups:
            yield _row(file, one, number, keys)


def _row(file: OrcFile, one: OrcFilter, number: int | None, keys: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(keys)
    row |= {"file": file.path, "row_group": number, "column": one.column, "type": one.leaf.column_type.name}
    row |= {"stripe": one.stripe, "stream": one.kind, "doubt": one.fault, "problem": one.problem}
    if one.num_bits:
        row |= {"num_bytes": one.num_bits // 8, "num_hash_functions": one.num_hash_functions}
        row |= {"fill": one.fill, "fpp": one.fpp, "ndv_estimate": one.ndv_estimate}
    return row
