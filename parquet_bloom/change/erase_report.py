"""`EraseReport`: what was erased, and what may still hold it; text for people, and JSON to keep with a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, ClassVar

from ..errors import ParquetBloomError, printable, shortened
from ..file.drop_rows import DroppedRows
from ..file.tabular_report import Kind, TabularReport
from ..redaction import shown_redacted
from ..util.messages import count
from .held_copies import HeldCopy

_SHOWN = 20  # files, and errors, that the text lists


@shown_redacted
@dataclass(frozen=True)
class ErasedFile:
    """A file that was written anew without some rows; in a dry run, one that would be.

    Attributes
    ----------
    path, output : the file that was read, and the one that was written; equal when it was replaced.
    dropped : what was done to it: numbers of rows and row groups, and sizes in bytes.
    """

    path: str
    output: str
    dropped: DroppedRows

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        dropped = self.dropped
        return {
            "file": self.path,
            "output": self.output,
            "rows": dropped.num_rows,
            "rows_left": dropped.rows_left,
            "row_groups_rewritten": dropped.rewritten,
            "row_groups_copied": dropped.copied,
            "row_groups_removed": dropped.removed,
            "chunks_trimmed": dropped.trimmed,
            "old_size": dropped.old_size,
            "new_size": dropped.new_size,
            "lost": [{"row_group": one.row_group, "column": one.column, "what": one.what} for one in dropped.lost],
        }


@shown_redacted
@dataclass
class EraseReport(TabularReport):
    """The result of `erase`.

    Attributes
    ----------
    lake : what was given.
    on, where : the columns of the keys and the predicate, as text; None if none was given. The keys are not named.
    keys_given, keys_null, keys_found : how many keys were given, how many of them are null, which no row has, and how
        many different ones rows had; None if there are none. Of keys that are compared with a function of a column it
        is not counted how many were found.
    num_searched : files of the lake.
    num_located : rows that were to be erased.
    files : the files that had such rows, and were written anew.
    errors : {path: error} of files that have such rows and stay as they were.
    rows_after : such rows that the lake, or the output, has when all was done, by a second search of what has changed
        since the first one; None if none was made, or it has failed, as `held` says then.
    held : what may still hold the rows.
    dry_run : whether nothing was written.
    started : when it began.
    seconds : time taken.

    As a table it has a row for each file that was written anew, with what `ErasedFile.to_dict` has but `lost`.
    """

    lake: str
    on: str | None = None
    where: str | None = None
    keys_given: int | None = None
    keys_null: int | None = None
    keys_found: int | None = None
    num_searched: int = 0
    num_located: int = 0
    files: list[ErasedFile] = field(default_factory=list)
    errors: dict[str, ParquetBloomError] = field(default_factory=dict)
    rows_after: int | None = None
    held: list[HeldCopy] = field(default_factory=list)
    dry_run: bool = False
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: float = 0.0

    _columns: ClassVar[Mapping[str, Kind]] = {
        "path": "path",
        "output": "path",
        "rows": "int",
        "rows_left": "int",
        "row_groups_rewritten": "int",
        "row_groups_copied": "int",
        "row_groups_removed": "int",
        "chunks_trimmed": "int",
        "old_size": "int",
        "new_size": "int",
    }

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        read = itemgetter("file", *list(self._columns)[1:])
        return (read(file.to_dict()) for file in self.files)

    @property
    def num_rows(self) -> int:
        """Number of rows that were erased; in a dry run, that would be."""
        return sum(file.dropped.num_rows for file in self.files)

    @property
    def bytes_written(self) -> int:
        """Size of the new files."""
        return sum(file.dropped.new_size for file in self.files)

    @property
    def bytes_encoded(self) -> int:
        """Bytes of pages that were encoded anew; the rest of the new files was copied."""
        return sum(file.dropped.bytes_encoded for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it, fit to be kept with the request."""
        keys: Mapping[str, int | None] | None = None
        if self.keys_given is not None:
            keys = {"given": self.keys_given, "null": self.keys_null, "found": self.keys_found}
        return {
            "lake": self.lake,
            "on": self.on,
            "where": self.where,
            "keys": keys,
            "dry_run": self.dry_run,
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round(self.seconds, 6),
            "files_searched": self.num_searched,
            "rows_located": self.num_located,
            "rows": self.num_rows,
            "rows_after": self.rows_after,
            "bytes_written": self.bytes_written,
            "bytes_encoded": self.bytes_encoded,
            "files": [file.to_dict() for file in self.files],
            "errors": [
                {"file": path, "kind": type(error).__name__, "problem": error.problem}
                for path, error in self.errors.items()
            ],
            "still_held": [one.to_dict() for one in self.held],
        }

    def __str__(self) -> str:
        lines = [self._describe_file(file) for file in self.files[:_SHOWN]]
        lines += [f"... and {count(len(self.files) - _SHOWN, 'more file')}"] if len(self.files) > _SHOWN else []
        lines += [f"failed: {error}" for error in [*self.errors.values()][:_SHOWN]]
        return "\n".join([*lines, *self.lines_after_files])

    @property
    def lines_after_files(self) -> list[str]:
        """What the text says of all files together, beginning with `summary`."""
        lines = [self.summary]
        if self.keys_given is not None:
            lines.append(self._describe_keys())
        if self.rows_after is not None:
            lines.append(f"searched again: {count(self.rows_after, 'row')}")
        for one in self.held:
            lines.append(str(one))
        return lines

    @property
    def summary(self) -> str:
        """One line of it."""
        done = "would erase" if self.dry_run else "erased"
        files = f"{count(len(self.files), 'file')} of {self.num_searched:,}"
        text = f"{printable(shortened(self.lake))}: {done} {count(self.num_rows, 'row')} of {files}"
        text += (
            f", {self.bytes_written:,} bytes written, {self.bytes_encoded:,} of them encoded anew" if self.files else ""
        )
        return text + (f"; {count(len(self.errors), 'file')} failed" if self.errors else "")

    def _describe_file(self, file: ErasedFile) -> str:
        dropped = file.dropped
        text = f"{printable(shortened(file.output))}: {count(dropped.num_rows, 'row')} of "
        text += f"{dropped.num_rows + dropped.rows_left:,}, {dropped.old_size:,} -> {dropped.new_size:,} bytes; "
        text += f"row groups: {dropped.rewritten:,} rewritten, {dropped.copied:,} copied, {dropped.removed:,} removed"
        if dropped.trimmed:
            text += f"; {count(dropped.trimmed, 'column chunk')} of copied ones encoded anew, for what dictionaries had"
        if dropped.lost:
            kinds = sorted({one.what for one in dropped.lost})
            text += f"; {count(len(dropped.lost), 'column chunk')} without {', '.join(kinds)} now"
        return text

    def _describe_keys(self) -> str:
        found = "" if self.keys_found is None else f", {self.keys_found:,} found"
        null = f", {self.keys_null:,} null, which no row has" if self.keys_null else ""
        return f"{count(self.keys_given or 0, 'key')} given{found}{null}"
