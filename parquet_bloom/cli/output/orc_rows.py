"""ORC files among the files of a command: how they are told, and a row for each of their filters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import NotParquetError
from ...file.columns import find_leaves
from ...file.reader import BloomFile, parse_variant
from ...file.verify import VerifyReport, verify
from ...scan.model.file_format import open_any
from ...storage import open_source
from .table import Column, or_blank

if TYPE_CHECKING:
    from ...orc import OrcFile, OrcFilter


def _not_orc(row: Any) -> bool:
    return row["stripe"] is None


STRIPE = Column("stripe", "stripe", right=True, rare=_not_orc)
STREAM = Column("stream", "stream", rare=_not_orc, folds=True)
FUNCTIONS = Column("num_hash_functions", "k", right=True, rare=_not_orc)
DOUBT = Column("doubt", "not asked, as", text=or_blank, rare=lambda row: row["doubt"] is None, folds=True)


@contextmanager
def opened(path: str, filesystem: object | None, variant: str | None = None) -> Iterator[BloomFile | OrcFile]:
    """A Parquet or an ORC file, told by what it holds; a Parquet file's filters are read under a variant, as in `open`.

    Raises
    ------
    ParquetBloomError
        It is neither, or cannot be read.
    """
    with open_source(path, filesystem) as source:
        yield open_any(source, None, parse_variant(variant))


def verify_any(
    path: str,
    data: bool,
    columns: Collection[str] | None,
    filesystem: Any,
    progress: Any,
    variant: str | None = None,
) -> VerifyReport:
    """What `file.verify.verify` or `orc.verify` find; a Parquet file is asked for no more than by the former.

    Raises
    ------
    ParquetBloomError
        As these, and for what is neither.
    """
    try:
        return verify(path, data, columns, filesystem, progress, variant=variant)
    except NotParquetError:
        with opened(path, filesystem):  # says better what it is, or that it is an ORC file
            from ... import orc

        return orc.verify(path, data, columns, filesystem, progress)


def rows_of(
    file: OrcFile, columns: Collection[str], row_groups: Collection[int], missing: set[str], keys: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A row a filter, as `show` prints them.

    Parameters
    ----------
    file : the file.
    columns, row_groups : those that are shown, row groups counted through the whole file; all if empty.
    missing : names that no file had so far; those that this one has are taken out.
    keys : of a row.
    """
    names = None
    if columns:
        found = {name: find_leaves(file.leaves, name) for name in columns}
        missing.difference_update(name for name in columns if found[name])
        wanted = {leaf.index for name in columns for leaf in found[name]}
        names = [leaf.name for leaf in file.leaves if leaf.index in wanted]
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
