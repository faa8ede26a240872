"""What may still hold rows that were deleted or erased."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ParquetBloomError, first_line
from ..tables.embed.table_target import TableState, Target

_MAIN = "main"


@dataclass(frozen=True)
class HeldCopy:
    """Something that may still hold rows.

    Attributes
    ----------
    where : what it is.
    known : whether it is there for certain; otherwise it was not looked for.
    until : what removes it.
    """

    where: str
    known: bool
    until: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"where": self.where, "known": self.known, "until": self.until}

    def __str__(self) -> str:
        return f"{'still holds' if self.known else 'may still hold'} them: {self.where}; {self.until}"


def search_again(search: Callable[[], int]) -> tuple[int | None, list[HeldCopy]]:
    """Return how many rows are found after all is done; None if that fails, with what may still hold them then.

    What was done must not look as if it had failed: others may have changed the files or their columns since.
    """
    try:
        return search(), []
    except ParquetBloomError as error:
        return None, [HeldCopy(f"what could not be searched again ({first_line(error)})", False, "search it")]


def list_held_by_table(target: Target, state: TableState, are_hidden: bool) -> list[HeldCopy]:
    """Return what may still hold the rows that a commit has deleted.

    Parameters
    ----------
    state : of the table, before the commit.
    are_hidden : whether it has left some in their files.
    """
    held = []
    if are_hidden:
        until = "delete them with mode='rewrite', or have the table's engine write these files anew"
        held.append(HeldCopy("data files of the table, whose readers leave the rows out", True, until))
    if target.kind == "delta":
        until = "a vacuum removes their files, once the table's retention is over: `DeltaTable.vacuum(dry_run=False)`"
        held.append(HeldCopy(f"the versions of the table up to {state.version}", True, until))
    else:
        until = (
            "they are expired, `table.maintenance.expire_snapshots()`, and their files removed by the table's engine"
        )
        held.append(HeldCopy(f"the snapshots of the table up to {state.version}", True, until))
        held += _list_refs(state.handle.table.metadata.refs)
    held.append(HeldCopy("lake indexes and zone indexes of its files: hashes and filters", False, "rebuild them"))
    held.append(HeldCopy("clones, change data, backups and versions of objects in a bucket", False, "look there"))
    return held


def _list_refs(refs: Any) -> Iterator[HeldCopy]:
    """Yield the branches and tags of an Iceberg table, whose snapshots are not expired."""
    for name, ref in sorted(refs.items()):
        if name != _MAIN:
            kind = ref.snapshot_ref_type.value
            yield HeldCopy(f"the {kind} {name} of the table, at snapshot {ref.snapshot_id}", False, f"drop the {kind}")
