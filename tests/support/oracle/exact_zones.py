"""A zone index whose zones know their very values: what a true one with perfect filters would answer.

Zones may have any shape here: gaps between them, or some of them over one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.file.identity import chunk_bytes_fingerprint, footer_fingerprint, version_token
from parquet_bloom.zones import FileZones, ZonedFile, ZoneIndex
from parquet_bloom.zones.zone_hashes import hash_values

Zone = tuple[int, int, int]
"""Row group, first row, number of rows."""


class ExactZones(ZoneIndex):
    """Zones of files.

    Parameters
    ----------
    column : of the zones, directly below the root.
    zones : {path: its zones}.

    Attributes
    ----------
    probed_zones : the zones that were probed, a list a call.
    """

    def __init__(self, column: str, zones: Mapping[Any, Sequence[Zone]]):
        self.path = None
        self._source = None
        self.column = column
        self.probed_zones: list[list[int]] = []
        self._of = []
        self._files = []
        self._hashes: list[set[int]] = []
        for number, (path, some) in enumerate(zones.items()):
            with parquet_bloom.open(path) as file:
                leaf = file.leaf(column)
                fingerprints = (
                    footer_fingerprint(file.footer),
                    chunk_bytes_fingerprint(file.source, file.footer, [leaf]),
                )
                stamp = version_token(file.source.identity)
                column_type = file.column_type(column)
                counts = file.num_row_groups
                size = file.source.size
            self._files.append(ZonedFile(number, str(path), size, stamp, *fingerprints, column_type, counts))
            first, nulls = len(self._hashes), []
            values = [_by_row(path, column, row_group) for row_group in range(counts)]
            for row_group, start, length in some:
                rows = values[row_group] if row_group < counts else []
                of_zone = [value for row in rows[start : start + length] for value in row]
                hashes, _ = hash_values(sorted({_stored(value) for value in of_zone if value is not None}), column_type)
                self._hashes.append(set(hashes.tolist()))
                nulls.append(None in of_zone)
            row_groups, starts, lengths = np.array(some, np.int64).reshape(-1, 3).T
            ordinals = np.arange(first, len(self._hashes))
            self._of.append(FileZones(row_groups.astype(np.intp), starts, lengths, np.array(nulls, bool), ordinals))

    @property
    def files(self) -> list[ZonedFile]:
        return self._files

    def file(self, number: int) -> ZonedFile:
        return self._files[number]

    def of_file(self, path: str, filesystem: Any = None) -> int | None:
        return next((file.number for file in self._files if Path(file.path) == Path(path)), None)

    def zones_of(self, number: int) -> FileZones:
        return self._of[number]

    def check(self, zones: Any, hashes: Any) -> Any:
        self.probed_zones.append(zones.tolist())
        return np.array([not self._hashes[zone].isdisjoint(hashes.tolist()) for zone in zones.tolist()], bool)


def _stored(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _by_row(path: Any, column: str, row_group: int) -> list[list[Any]]:
    """The values of each row; of a list its elements."""
    rows = pq.ParquetFile(path).read_row_group(row_group, [column])[column].to_pylist()
    return [row if isinstance(row, list) else [row] for row in rows]


def every(num_rows: int, rows_per_zone: int, row_groups: Iterable[int] = (0,)) -> list[Zone]:
    """Zones that divide the rows of row groups of one size among them."""
    return [
        (row_group, start, min(rows_per_zone, num_rows - start))
        for row_group in row_groups
        for start in range(0, num_rows, rows_per_zone)
    ]
