"""Results of lookups in an index, and reports of its operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ParquetBloomError
from ..redaction import shown_redacted
from ..util.messages import count

if TYPE_CHECKING:  # numpy takes long to import
    from .units import RowRanges


class Candidate(NamedTuple):
    """A file that may hold a value.

    Attributes
    ----------
    path : the file, as the lake's listing names it.
    row_groups : row groups that may hold it; None for all.
    rows : for each of `row_groups` the ranges [start, stop) of its rows that may hold it, ascending; None where the
        index has no zones.
    """

    path: str
    row_groups: tuple[int, ...] | None = None
    rows: tuple[RowRanges, ...] | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the candidate as JSON can hold it."""
        return {
            "path": self.path,
            "row_groups": None if self.row_groups is None else list(self.row_groups),
            "rows": None if self.rows is None else [[list(span) for span in ranges] for ranges in self.rows],
        }


class FileSelection(NamedTuple):
    """Result of an index for one file.

    Attributes
    ----------
    current : False if the file is not indexed, or has changed since where that matters; it has to be read then.
    read : whether any row of the file can match.
    row_groups : row groups that can match; None where the index does not distinguish them.
    reason : why the file is pruned.
    stamp : version token of the indexed file, where `row_groups` is given (see `file.identity`).
    rows : {row group: ranges [start, stop) of its rows that can match, ascending}; those that have no entry can match
        as a whole.
    row_counts : where the index has zones, the rows of each row group of the indexed file.
    """

    current: bool
    read: bool = True
    row_groups: frozenset[int] | None = None
    reason: str = ""
    stamp: bytes = b""  # `file.identity.NO_TOKEN`, which takes long to import
    rows: Mapping[int, RowRanges] = {}
    row_counts: tuple[int, ...] = ()


class Answers(list[list[Candidate]]):
    """Result of `lookup`: for each value, in the order given, the files that may hold it.

    Attributes
    ----------
    doubts : problems with reading the index, which add needless candidates; each once.
    requests : range reads of the index's files.
    bytes_read : bytes of those reads.
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
    """Result of `append`.

    Attributes
    ----------
    added, replaced, unchanged : files indexed for the first time; files indexed again, as they had changed; and files
        that were skipped as they had not.
    failed : {path: error} of files that could not be read, and are not indexed.
    entries : (value, unit) pairs, where a unit is a file, a row group or a zone of rows; see `IndexStats`.
    uncovered : {column: {path: reason why the column is not indexed}}; such files are candidates for every value.
    merged : small segments that were merged.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    failed: dict[str, ParquetBloomError] = field(default_factory=dict)
    entries: int = 0
    uncovered: dict[str, dict[str, str]] = field(default_factory=dict)
    merged: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON can hold it; `failed` has the texts of errors."""
        return asdict(self) | {"failed": {path: str(error) for path, error in self.failed.items()}}

    @property
    def indexed(self) -> int:
        return self.added + self.replaced

    def __str__(self) -> str:
        counts = [f"{count(self.added, 'file')} added"]
        for number, what in (
            (self.replaced, "indexed again"),
            (self.unchanged, "unchanged"),
            (len(self.failed), "failed"),
        ):
            if number:
                counts.append(f"{number:,} {what}")
        return ", ".join(counts) + f"; {count(self.entries, 'value')}"


@dataclass(frozen=True)
class CompactReport:
    """Result of `compact`.

    Attributes
    ----------
    segments_before, segments_after, bytes_before, bytes_after : number of segments, and their bytes.
    dropped : data files dropped from the index.
    deleted : files of the index that were deleted.
    """

    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int
    dropped: int
    deleted: int

    def __str__(self) -> str:
        return (
            f"{count(self.segments_before, 'segment')} of {self.bytes_before:,} bytes -> {self.segments_after:,} of "
            f"{self.bytes_after:,}; {count(self.dropped, 'file')} dropped, {count(self.deleted, 'old file')} deleted"
        )


@dataclass(frozen=True)
class IndexStats:
    """Size and expected precision of an index.

    Attributes
    ----------
    version : number of the manifest.
    layout, granularity, columns, settings : as the index was created.
    segments, files, units : number of each.
    unindexed, changed, gone : live files that are not indexed, those among them that were indexed before they changed,
        and indexed files that are no longer in the lake; None where the lake was not listed.
    entries : {column: (value, unit) pairs}. A gram that is in too many units to list them counts in all of them.
    num_bytes, files_bytes : {column: bytes of its parts}, and bytes of the file tables.
    expected_false : {column: expected number of false candidates for an absent value}.
    snapshot : the table snapshot that was indexed last.
    zone_rows : rows of a zone; 0 where units are not zones.
    """

    version: int
    layout: str
    granularity: str
    columns: tuple[str, ...]
    settings: Mapping[str, int]
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
    snapshot: Mapping[str, object]
    zone_rows: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the figures as JSON can hold them."""
        return asdict(self) | {"bytes_a_value": self.bytes_a_value}

    @property
    def bytes_a_value(self) -> float:
        """Bytes per value over all columns; 0 for an index without values."""
        entries = sum(self.entries.values())
        return sum(self.num_bytes.values()) / entries if entries else 0.0


@shown_redacted
@dataclass
class CheckReport:
    """Result of `check`.

    Attributes
    ----------
    problems : descriptions, one line each.
    files : number of files that were read again to look up all of their values.
    values : number of those values.
    """

    problems: list[str] = field(default_factory=list)
    files: int = 0
    values: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


class IndexSnapshot(NamedTuple):
    """State of an index: the number of its manifest, and the table snapshot that was indexed last."""

    version: int
    table: Mapping[str, object]
    files: int
