"""Files and fragments of a zone index, and the report of a build."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import ParquetBloomError
from ..hashing.column_type import ColumnType
from ..redaction import shown_redacted


class ZonedFragment(NamedTuple):
    """A row group that has zones; its position in the list is its fragment_id.

    Attributes
    ----------
    path : path of the file in the index.
    row_group : number of the row group in the file.
    num_rows : number of its rows.
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
    number : its position in `ZoneIndex.files`.
    path : absolute, or a URL (see `storage.names.name_of`).
    size, stamp : size and version token, which show without reading it that it is unchanged (see `file.identity`).
    footer, data : fingerprints of its footer without filters, and of the column's bytes.
    column_type : how the column's values are stored in it.
    row_groups : number of its row groups.
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
    """The result of `build`.

    Attributes
    ----------
    path : path of the index.
    column : dotted name of the column.
    files, fragments, zones, rows : numbers of what the index covers.
    num_bytes : size of the index file.
    filter_bytes : size of one filter.
    failed : {path: error} for files that are not covered, and so are never pruned.
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
