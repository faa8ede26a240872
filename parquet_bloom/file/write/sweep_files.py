"""`sweep`: find files left behind by killed writers, and delete those that hold no unique data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import ParquetBloomError, StorageError
from ...redaction import shown_redacted
from ...storage import Source, open_source
from ...storage.local.local_rewrite import delete_leftover, displaced_from, leftovers_below
from ..bloom_file import BloomFile
from ..identity import chunk_bytes_fingerprint, footer_fingerprint


@shown_redacted
@dataclass(frozen=True)
class Leftover:
    """A file left behind by a killed writer.

    Attributes
    ----------
    path, num_bytes : the file.
    deleted : whether it was deleted, or in a dry run would be.
    reason : why it is kept, or was already gone; None if it was deleted.
    """

    path: str
    num_bytes: int
    deleted: bool
    reason: str | None = None


def sweep(folder: str | os.PathLike[str], *, dry_run: bool = False) -> Iterator[Leftover]:
    """Delete files left behind by killed writers in a local folder and below it.

    Files whose writer is still running are skipped. New files that were never finished are deleted. A file that was
    exchanged with its replacement is deleted if both hold the same rows; if they differ it is kept, as another writer
    may have put it there in the moment of the exchange.

    Parameters
    ----------
    folder : the folder to search; links to folders in it are not followed.
    dry_run : delete nothing.

    Raises
    ------
    StorageError
        A folder cannot be listed, or a file in it cannot be deleted.
    """
    for path in leftovers_below(folder):
        try:
            num_bytes = os.lstat(path).st_size
        except OSError:
            continue  # its writer has just finished, or another process sweeps
        reason = _find_reason_to_keep(path)
        if reason is None and not dry_run and not delete_leftover(path):
            reason = "another process has removed it"
        yield Leftover(path, num_bytes, reason is None, reason)


def _find_reason_to_keep(path: str) -> str | None:
    folder, name = os.path.split(path)
    target = displaced_from(name)
    if target is None:
        return None
    try:
        with open_source(path) as source:
            ours = _fingerprint_rows(source)
    except ParquetBloomError as error:
        return f"it may be another writer's, and cannot be read: {error.problem}"
    try:
        with open_source(os.path.join(folder, target)) as source:
            theirs = _fingerprint_rows(source)
    except StorageError:
        return f"there is no {target} beside it"
    except ParquetBloomError as error:
        return f"{target} cannot be read: {error.problem}"
    return None if ours == theirs else f"it holds other rows than {target}"


def _fingerprint_rows(source: Source) -> tuple[int, int]:
    """Return fingerprints that are equal for files that differ only in their filters."""
    file = BloomFile(source)
    fingerprints = footer_fingerprint(file.footer), chunk_bytes_fingerprint(source, file.footer, file.leaves)
    source.check_unchanged()
    return fingerprints
