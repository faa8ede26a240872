"""What may still hold rows that were deleted or erased."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ParquetBloomError, first_line, printable, shortened
from ..tables.embed.table_target import RowChange, TableState, Target
from ..util.messages import truncate_list

_MAIN = "main"
_RUNS = 10  # of versions with the same rows, that are told apart


@dataclass(frozen=True)
class HeldCopy:
    """Something that may still hold rows.

    Attributes
    ----------
    where : what it is.
    known : whether it is there for certain; otherwise it was not looked for.
    until : what removes it.
    num_rows : of the rows that it holds for certain; None if that was not counted.
    """

    where: str
    known: bool
    until: str
    num_rows: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"where": self.where, "known": self.known, "until": self.until, "rows": self.num_rows}

    def __str__(self) -> str:
        what = "them" if self.num_rows is None else f"{self.num_rows:,} of them"
        return f"{'still holds' if self.known else 'may still hold'} {what}: {self.where}; {self.until}"


def search_again(search: Callable[[], int]) -> tuple[int | None, list[HeldCopy]]:
    """Return how many rows are found after all is done; None if that fails, with what may still hold them then.

    What was done must not look as if it had failed: others may have changed the files or their columns since.
    """
    try:
        return search(), []
    except ParquetBloomError as error:
        return None, [HeldCopy(f"what could not be searched again ({first_line(error)})", False, "search it")]


def list_shared_dictionaries(columns: Iterable[str]) -> list[HeldCopy]:
    """Return that other files may hold values of the rows in their dictionaries, where those of a file had such values.

    Parameters
    ----------
    columns : those of `DroppedRows.shared`, of all files.
    """
    names = truncate_list([printable(shortened(name)) for name in sorted({*columns})])
    if not names:
        return []
    where = (
        f"dictionaries of other files: here those of {', '.join(names)} had values that no row of their row group had"
    )
    return [HeldCopy(where, False, "look there, and write these files anew")]


def list_held_by_table(target: Target, state: TableState, change: RowChange) -> list[HeldCopy]:
    """Return what may still hold the rows that a commit has deleted.

    Parameters
    ----------
    state : of the table, before the commit.
    change : the commit.
    """
    held = []
    if change.hidden:
        num_hidden = sum(len(file.rows) for file in change.hidden)
        until = "delete them with mode='rewrite', or have the table's engine write these files anew"
        held.append(HeldCopy("data files of the table, whose readers leave the rows out", True, until, num_hidden))
    if target.kind == "delta":
        until = "a vacuum removes their files, once the table's retention is over: `DeltaTable.vacuum(dry_run=False)`"
        held += _count_by_version(target, state, change, "version", until)
    else:
        until = (
            "they are expired, `table.maintenance.expire_snapshots()`, and their files removed by the table's engine"
        )
        held += _count_by_version(target, state, change, "snapshot", until)
        held += _list_refs(state.handle.table.metadata.refs)
    held += list_shared_dictionaries(name for file in change.rewritten for name in file.shared)
    held.append(HeldCopy("lake indexes and zone indexes of its files: hashes and filters", False, "rebuild them"))
    held.append(HeldCopy("clones, change data, backups and versions of objects in a bucket", False, "look there"))
    return held


def _count_by_version(
    target: Target, state: TableState, change: RowChange, name: str, until: str
) -> Iterator[HeldCopy]:
    """Yield the versions that still can be read, the newest first, with the number of rows that they have for certain.

    A version has the rows of each file that it has, as a commit does not change files; others it may have as well, in
    files that later ones have replaced.
    """
    changed = [(file.old, len(file.rows)) for file in (*change.hidden, *change.removed)]
    changed += [(file.old, len(file.rows)) for file in change.rewritten]
    versions, firsts = target.find_history(state, [old for old, _ in changed])
    gained: Counter[int] = Counter()
    for old, num_rows in changed:
        gained[firsts[old.path]] += num_rows
    steps = sorted(gained)
    left, end = sum(gained.values()), len(versions)
    for step in steps[: -_RUNS - 1 : -1]:
        first, last = versions[step], versions[end - 1]
        these = f"the {name} {last}" if step == end - 1 else f"the {name}s {first} to {last}"
        yield HeldCopy(f"{these} of the table", True, until, left)
        left, end = left - gained[step], step
    if end:
        these = f"the {name}s up to {versions[end - 1]}" if end > 1 else f"the {name} {versions[0]}"
        yield HeldCopy(f"{these} of the table, in files of before", False, until)


def _list_refs(refs: Any) -> Iterator[HeldCopy]:
    """Yield the branches and tags of an Iceberg table, whose snapshots are not expired."""
    for name, ref in sorted(refs.items()):
        if name != _MAIN:
            kind = ref.snapshot_ref_type.value
            yield HeldCopy(f"the {kind} {name} of the table, at snapshot {ref.snapshot_id}", False, f"drop the {kind}")
