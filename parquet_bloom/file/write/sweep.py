"""What writers that were killed have left behind: told, and deleted where nothing can be lost with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import ParquetBloomError, StorageError
from ...redaction import shown_redacted
from ...storage import Source, delete_leftover, displaced_from, leftovers_below, open_source
from ..fingerprint import chunk_bytes_fingerprint, footer_fingerprint
from ..reader import BloomFile


@shown_redacted
@dataclass(frozen=True)
class Leftover:
    """A file of a writer that was killed.

    Attributes
    ----------
    path, num_bytes : the file.
    deleted : whether it was deleted, or in a dry run would be.
    reason : why it is kept, or is not there any more; None if it was deleted.
    """

    path: str
    num_bytes: int
    deleted: bool
    reason: str | None = None


def sweep(folder: str | os.PathLike[str], *, dry_run: bool = False) -> Iterator[Leftover]:
    """Delete what killed writers left behind in a local folder and below it.

    Files whose writer is still at work are passed over. New files that were never finished are deleted. A file that
    stands beside the one it was exchanged with is deleted if both hold the same rows; it may be another writer's, who
    put it there in the moment of the exchange, and is kept where they differ.

    Parameters
    ----------
    folder : to look through; links to folders in it are not followed.
    dry_run : delete nothing.

    Raises
    ------
    StorageError
        A folder cannot be listed, or a file in it not deleted.
    """
    for path in leftovers_below(folder):
        try:
            num_bytes = os.lstat(path).st_size
        except OSError:
            continue  # its writer has just finished, or somebody else sweeps
        reason = _find_reason_to_keep(path)
        if reason is None and not dry_run and not delete_leftover(path):
            reason = "somebody has taken it by now"
        yield Leftover(path, num_bytes, reason is None, reason)


def _find_reason_to_keep(path: str) -> str | None:
    folder, name = os.path.split(path)
    beside = displaced_from(name)
    if beside is None:
        return None
    try:
        with open_source(path) as source:
            ours = _fingerprint_rows(source)
    except ParquetBloomError as error:
        return f"it may be another writer's, and cannot be read: {error.problem}"
    try:
        with open_source(os.path.join(folder, beside)) as source:
            theirs = _fingerprint_rows(source)
    except StorageError:
        return f"there is no {beside} beside it"
    except ParquetBloomError as error:
        return f"{beside} cannot be read: {error.problem}"
    return None if ours == theirs else f"it holds other rows than {beside}"


def _fingerprint_rows(source: Source) -> tuple[int, int]:
    """What two files have in common that differ by their filters alone."""
    file = BloomFile(source)
    found = footer_fingerprint(file.footer), chunk_bytes_fingerprint(source, file.footer, file.leaves)
    source.check_unchanged()
    return found
