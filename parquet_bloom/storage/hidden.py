"""What a listing leaves out, as Spark does, and what it must not be made of."""

from __future__ import annotations

from ..errors import ManagedTableError


def hidden(name: str, is_folder: bool) -> bool:
    """Whether a file or folder of this name holds no data: `_k=v` is a partition's folder."""
    if name.startswith(".") or name.endswith("._COPYING_"):
        return True
    return name.startswith("_") and not (is_folder and "=" in name)


def refuse(reason: str | None, path: str) -> None:
    """Raise ManagedTableError if there is a reason."""
    if reason:
        problem = f"{reason}: a listing would find removed files too; pass the list of the table's live files"
        raise ManagedTableError(problem, path=path)
