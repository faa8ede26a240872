"""What stands in a zone index over Parquet files beside Lance's schema: which files, which row groups, which column.

It is JSON in the schema's metadata, under `parquet_bloom.zones`; under `parquet_bloom.zones.checksum` stands the XXH64
(16 hexadecimal digits) of those bytes and of the zones behind them: fragment_id, zone_start, zone_length (uint64,
little-endian) and has_null (a byte each), column after column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_one
from ..errors import BrokenZonesError
from ..hashing.column_type_json import type_from_json, type_to_json
from .hashes import HASHING
from .reports import Fragment, ZonedFile
from .schema import NUMBERS, ZONE

VERSION = 1
PACKED_VERSION = 2
"""Says of the zones, too, what `packed` reads, and of files what tells them unchanged as text."""

KEY, CHECKSUM_KEY = b"parquet_bloom.zones", b"parquet_bloom.zones.checksum"


@dataclass(frozen=True, eq=False)
class Manifest:
    """Files and row groups of a zone index.

    Attributes
    ----------
    column : dotted name of the column.
    filter_bytes : size of each filter.
    files : those that have zones.
    fragment_files, fragment_row_groups, fragment_rows : of each fragment, by its id: number of its file, its row group
        in that, and the rows of it. Those of a file follow one another, in the order of the row groups.
    """

    column: str
    filter_bytes: int
    files: Sequence[ZonedFile]
    fragment_files: NDArray[np.int64]
    fragment_row_groups: NDArray[np.int64]
    fragment_rows: NDArray[np.int64]

    @cached_property
    def fragments(self) -> list[Fragment]:
        """The same, one by one."""
        columns = (self.fragment_files.tolist(), self.fragment_row_groups.tolist(), self.fragment_rows.tolist())
        return [
            Fragment(self.files[file].path, row_group, rows) for file, row_group, rows in zip(*columns, strict=True)
        ]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """{path: number of the file}."""
        return {file.path: file.number for file in self.files}

    def fragments_of(self, number: int) -> range:
        """The fragments of a file."""
        first, last = np.searchsorted(self.fragment_files, [number, number + 1]).tolist()
        return range(first, last)

    # -------------------------------------------------------------------------------------------------- as metadata

    def to_metadata(self, zones: NDArray[np.void], told_of_zones: Any = None) -> dict[bytes, bytes]:
        """What stands in the schema of an index of these zones.

        Parameters
        ----------
        zones : what the checksum is of, too.
        told_of_zones : what is said of them (see `packed`); None for a table, which has them in its columns.
        """
        text = told_of_zones is not None
        types = list(dict.fromkeys((file.column_type, file.column_type.name) for file in self.files))
        numbers = {each: number for number, each in enumerate(types)}
        told = {
            "version": PACKED_VERSION if text else VERSION,
            "column": self.column,
            "hashing": HASHING,
            "filter_bytes": self.filter_bytes,
            "types": [type_to_json(column_type) for column_type, _ in types],
            "files": {
                "path": [file.path for file in self.files],
                "size": [file.size for file in self.files],
                "stamp": [file.stamp.decode("latin-1") if text else file.stamp.hex() for file in self.files],
                "footer": [f"{file.footer:016x}" for file in self.files],
                "data": [f"{file.data:016x}" for file in self.files],
                "type": [numbers[file.column_type, file.column_type.name] for file in self.files],
                "row_groups": [file.row_groups for file in self.files],
            },
            "fragments": {
                "row_group": self.fragment_row_groups.tolist(),
                "num_rows": self.fragment_rows.tolist(),
            },
        }
        if text:
            told["zones"] = told_of_zones
        # Names of files may hold bytes that are no UTF-8: as escaped surrogates they come back as they were.
        data = json.dumps(told, separators=(",", ":")).encode("ascii")
        return {KEY: data, CHECKSUM_KEY: _checksum(data, zones)}

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[bytes, bytes] | None, zones: NDArray[np.void], path: str | None
    ) -> Manifest | None:
        """Read it back; None where there is none, as in Lance's own.

        Raises
        ------
        BrokenZonesError
            It is not as it was written, or of a later version.
        """
        data = (metadata or {}).get(KEY)
        if metadata is None or data is None:
            if CHECKSUM_KEY in (metadata or {}):
                raise BrokenZonesError("metadata: what it says of files is gone", path=path)
            return None
        try:
            told = json.loads(data)
            version = told["version"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BrokenZonesError("metadata: what it says of files is no JSON", path=path) from error
        if version not in (VERSION, PACKED_VERSION):
            problem = f"metadata: it is of version {version!r}; this version of parquet_bloom reads {PACKED_VERSION}"
            raise BrokenZonesError(problem, path=path)
        if metadata.get(CHECKSUM_KEY) != _checksum(data, zones):
            raise BrokenZonesError("it does not fit its checksum", path=path)
        try:
            found = cls._read(told)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise BrokenZonesError("metadata: what it says of files cannot be", path=path) from error
        found._require_fits(zones, path)
        return found

    @classmethod
    def _read(cls, told: dict[str, Any]) -> Manifest:
        if told["hashing"] != HASHING:
            raise ValueError(told["hashing"])
        types = [type_from_json(each) for each in told["types"]]
        is_text = told["version"] == PACKED_VERSION
        columns = told["files"]
        names = ("path", "size", "stamp", "footer", "data", "type", "row_groups")
        files = [
            ZonedFile(
                number,
                str(path),
                int(size),
                stamp.encode("latin-1") if is_text else bytes.fromhex(stamp),
                int(footer, 16),
                int(data, 16),
                types[kind],
                int(groups),
            )
            for number, (path, size, stamp, footer, data, kind, groups) in enumerate(
                zip(*(columns[name] for name in names), strict=True)
            )
        ]
        row_groups, num_rows = (np.array(told["fragments"][name], np.int64) for name in ("row_group", "num_rows"))
        counts = np.array([file.row_groups for file in files], np.int64)
        if (counts < 0).any() or counts.sum() != len(row_groups):
            raise ValueError("fragments")
        of_file = np.repeat(np.arange(len(files)), counts)
        within = np.arange(len(of_file)) - np.repeat(np.cumsum(counts) - counts, counts)
        if len(num_rows) != len(row_groups) or (row_groups != within).any() or (num_rows < 0).any():
            raise ValueError("fragments")
        column, filter_bytes = told["column"], told["filter_bytes"]
        if not isinstance(column, str) or not isinstance(filter_bytes, int):
            raise ValueError("column")
        return cls(column, filter_bytes, files, of_file, row_groups, num_rows)

    def _require_fits(self, zones: NDArray[np.void], path: str | None) -> None:
        """Raise BrokenZonesError unless every row of every row group is in a zone: else rows would be lost."""
        fragments, starts, lengths = (zones[name].astype(np.int64) for name in NUMBERS[:3])
        count = len(self.fragment_rows)
        fits = not len(zones) or (fragments.min() >= 0 and fragments.max() < count)
        if fits:
            first = np.ones(len(zones), np.bool_)
            first[1:] = fragments[1:] != fragments[:-1]
            before = np.zeros(len(zones), np.int64)
            before[1:] = (starts + lengths)[:-1]
            rows = np.zeros(count, np.int64)
            np.add.at(rows, fragments, lengths)
            fits = bool(
                (np.diff(fragments) >= 0).all()
                and (starts == np.where(first, 0, before)).all()
                and (rows == self.fragment_rows).all()
            )
        if not fits:
            raise BrokenZonesError("the zones do not divide the rows of the row groups among them", path=path)


def _checksum(data: bytes, zones: NDArray[np.void]) -> bytes:
    columns = [np.ascontiguousarray(zones[name], ZONE[name]).tobytes() for name in NUMBERS]
    return b"%016x" % hash_one(b"".join([data, *columns]))
