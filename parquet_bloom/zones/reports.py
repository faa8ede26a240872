"""What a zone index says of the files it was built over, and what building one reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import ParquetBloomError
from ..hashing.column_type import ColumnType
from ..redaction import shown_redacted


class Fragment(NamedTuple):
    """A row group that has zones; its place in the list is its fragment_id.

    Attributes
    ----------
    path : of the file, as the index names it.
    row_group : number in the file.
    num_rows : of the row group.
    """

    path: str
    row_group: int
    num_rows: int


@shown_redacted
@dataclass(frozen=True)
class ZonedFile:
    """A file that has zones.

    Attributes
    ----------
    number : its place in `ZoneIndex.files`.
    path : absolute, or a URL (see `storage.paths.name_of`).
    size, stamp : what tells that it is unchanged without reading it (see `file.stamps`).
    footer, data : fingerprints of its footer without filters, and of the column's bytes.
    column_type : how the column's values are stored in it.
    row_groups : how many it has.
    """

    number: int
    path: str
    size: int
    stamp: bytes
    footer: int
    data: int
    column_type: ColumnType
    row_groups: int


@shown_redacted
@dataclass
class ZoneBuildReport:
    """What `build` wrote.

    Attributes
    ----------
    path : the index.
    column : the column.
    files, fragments, zones, rows : how many it covers.
    num_bytes : size of the file.
    filter_bytes : bytes of one filter.
    failed : {path: error} of files that are not covered: they will be read.
    """

    path: str
    column: str
    files: int = 0
    fragments: int = 0
    zones: int = 0
    rows: int = 0
    num_bytes: int = 0
    filter_bytes: int = 0
    failed: dict[str, ParquetBloomError] = field(default_factory=dict)
