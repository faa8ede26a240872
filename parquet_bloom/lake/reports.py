"""What an index answers, and what its changes report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import ParquetBloomError
from ..redaction import shown_redacted


class Candidate(NamedTuple):
    """A file that may hold a value.

    Attributes
    ----------
    path : the file, as the lake's listing names it.
    row_groups : those of it that may; None for all of them.
    """

    path: str
    row_groups: tuple[int, ...] | None = None


class Answers(list[list[Candidate]]):
    """What `lookup` found: for each value, in the order asked, the files that may hold it.

    Attributes
    ----------
    doubts : what could not be read of the index, so that more files are named than need be; each once.
    requests : range reads of the index's files that it took.
    bytes_read : bytes that came upon them.
    """

    def __init__(
        self, found: Iterable[list[Candidate]], doubts: Iterable[str] = (), requests: int = 0, bytes_read: int = 0
    ):
        super().__init__(found)
        self.doubts = list(doubts)
        self.requests = requests
        self.bytes_read = bytes_read


@shown_redacted
@dataclass
class AppendReport:
    """What `append` did.

    Attributes
    ----------
    added, replaced, unchanged : files indexed that were not before; those indexed again, as they had changed; and those
        left alone.
    failed : {path: error} of files that could not be read, and are not indexed.
    entries : (value, file) or (value, row group) pairs that came in, before repetitions were dropped.
    uncovered : {column: {path: why nothing of it is indexed}}; such files are candidates for every value.
    merged : segments that were merged, as there had come to be many small ones.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    failed: dict[str, ParquetBloomError] = field(default_factory=dict)
    entries: int = 0
    uncovered: dict[str, dict[str, str]] = field(default_factory=dict)
    merged: int = 0

    @property
    def indexed(self) -> int:
        return self.added + self.replaced

    def __str__(self) -> str:
        told = [f"{self.added:,} file{'' if self.added == 1 else 's'} added"]
        for count, what in (
            (self.replaced, "indexed again"),
            (self.unchanged, "unchanged"),
            (len(self.failed), "failed"),
        ):
            if count:
                told.append(f"{count:,} {what}")
        return ", ".join(told) + f"; {self.entries:,} values"


@dataclass(frozen=True)
class CompactReport:
    """What `compact` did.

    Attributes
    ----------
    segments_before, segments_after, bytes_before, bytes_after : segments and bytes that there were, and are.
    dropped : files of the lake that are not in the index any more.
    deleted : files of the index's own that were.
    """

    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int
    dropped: int
    deleted: int

    def __str__(self) -> str:
        return (
            f"{self.segments_before} segments of {self.bytes_before:,} bytes -> {self.segments_after} of "
            f"{self.bytes_after:,}; {self.dropped:,} files dropped, {self.deleted} old files deleted"
        )


@dataclass(frozen=True)
class IndexStats:
    """How large an index is, and how good.

    Attributes
    ----------
    version : number of the manifest.
    layout, granularity, columns, settings : as it was made.
    segments, files, units : how many there are.
    unindexed, changed, gone : live files that it does not know, those among them that it knew as they were before,
        and indexed files that are not in the lake any more; None where the lake was not looked at.
    entries : {column: (value, unit) pairs}.
    num_bytes : {column: bytes of its parts}; `files_bytes` those of the tables of files.
    expected_false : {column: units expected to be named for a value that is in none}.
    snapshot : the table's state that was indexed last.
    """

    version: int
    layout: str
    granularity: str
    columns: tuple[str, ...]
    settings: Mapping[str, Any]
    segments: int
    files: int
    units: int
    unindexed: int | None
    changed: int | None
    gone: int | None
    entries: Mapping[str, int]
    num_bytes: Mapping[str, int]
    files_bytes: int
    expected_false: Mapping[str, float]
    snapshot: Mapping[str, Any]

    @property
    def bytes_a_value(self) -> float:
        """Of all columns together; 0 for an index without values."""
        entries = sum(self.entries.values())
        return sum(self.num_bytes.values()) / entries if entries else 0.0


@shown_redacted
@dataclass
class CheckReport:
    """What `check` found.

    Attributes
    ----------
    problems : a line each.
    files : how many files were read again, of which every value was looked up.
    values : how many values that were.
    """

    problems: list[str] = field(default_factory=list)
    files: int = 0
    values: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


class IndexSnapshot(NamedTuple):
    """Which state an index is in: the number of its manifest, and the table's state that was indexed last."""

    version: int
    table: Mapping[str, Any]
    files: int
