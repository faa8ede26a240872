"""Split a plan into parts, each with what the reading of its own files needs, for processes that read side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from ...errors import ParquetBloomError
from ...storage import FileIdentity, RemoteIdentity, is_local
from ...tables.table_part import TablePart
from .scan_plan import FilePlan, ScanPlan

P = TypeVar("P", bound=ScanPlan)

_OPEN_BYTES = 1 << 20  # what opening a file counts for
_ROW_BYTES = 64  # of a file whose size is not known


def split_plan(plan: P, num_parts: int) -> list[tuple[P, int | None]]:
    """Return at most so many plans, in order, of about as many bytes each; none if no file is read.

    With each there is the number of threads that read it: one of local files, since the processes are many, and None
    for the default of remote ones, which are waited for.

    A file is never split: one that has changed since it was planned is read again as a whole, and its rows would be
    read by each part.
    """
    if num_parts < 1:
        raise ParquetBloomError(f"num_parts must be at least 1, got {num_parts}")
    files = [file for file in plan.files if file.read_groups]
    ends = list(accumulate(estimate_bytes(file) + _OPEN_BYTES for file in files))
    parts: dict[int, list[FilePlan]] = {}
    for file, end in zip(files, ends, strict=True):
        parts.setdefault((end - 1) * num_parts // ends[-1], []).append(file)
    positions = {} if plan.table is None else {file.path: row for row, file in enumerate(plan.table.files)}
    threads = 1 if is_local(plan.filesystem, [file.path for file in files]) else None
    return [(_select_files(plan, part, positions), threads) for part in parts.values()]


def _select_files(plan: P, files: list[FilePlan], positions: dict[str, int]) -> P:
    paths = [file.path for file in files]
    table = None if plan.table is None else TablePart.of(plan.table, [positions[path] for path in paths])
    return replace(plan, files=files, partitions=plan.partitions.select(paths), table=table)


def estimate_bytes(file: FilePlan) -> int:
    """Return about how many bytes of a file its selected row groups take."""
    num_rows = sum(group.num_rows for group in file.read_groups)
    if not isinstance(file.identity, FileIdentity | RemoteIdentity):
        return num_rows * _ROW_BYTES
    return file.identity.size * num_rows // max(1, sum(group.num_rows for group in file.row_groups))


def count_all_rows(files: Sequence[FilePlan]) -> int:
    """Return the rows of the selected row groups, matching or not."""
    return sum(group.num_rows for file in files for group in file.read_groups)
