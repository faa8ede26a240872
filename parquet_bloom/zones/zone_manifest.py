"""The manifest of a zone index over Parquet files, in addition to Lance's schema: its files, row groups and column.

It is JSON in the schema metadata, under `parquet_bloom.zones`. `parquet_bloom.zones.checksum` is the XXH64 (16
hexadecimal digits) of these bytes followed by the zones: fragment_id, zone_start, zone_length (uint64, little-endian)
and has_null (a byte each), column after column.
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
from ..hashing.column_type import type_from_json, type_to_json
from .zone_hashes import HASHING
from .zone_reports import ZonedFile, ZonedFragment
from .zone_schema import NUMBERS, ZONE

VERSION = 1
PACKED_VERSION = 2
"""Also contains the zones, see `packed`, and version tokens of files as text."""

KEY, CHECKSUM_KEY = b"parquet_bloom.zones", b"parquet_bloom.zones.checksum"


@dataclass(frozen=True, eq=False)
class ZoneManifest:
    """Files and row groups of a zone index.

    Attributes
    ----------
    column : dotted name of the column.
    filter_bytes : size of each filter.
    files : the files that have zones.
    fragment_files, fragment_row_groups, fragment_rows : for each fragment, by its id: the number of its file, its row
        group and the number of rows. Fragments of a file are consecutive, in the order of the row groups.
    """

    column: str
    filter_bytes: int
    files: Sequence[ZonedFile]
    fragment_files: NDArray[np.int64]
    fragment_row_groups: NDArray[np.int64]
    fragment_rows: NDArray[np.int64]

    @cached_property
    def fragments(self) -> list[ZonedFragment]:
        """Return the row groups that have zones, by fragment_id."""
        columns = (self.fragment_files.tolist(), self.fragment_row_groups.tolist(), self.fragment_rows.tolist())
        return [
            ZonedFragment(self.files[file].path, row_group, rows)
            for file, row_group, rows in zip(*columns, strict=True)
        ]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return {path: number of the file}."""
        return {file.path: file.number for file in self.files}

    def fragments_of(self, number: int) -> range:
        """Return the ids of the fragments of a file."""
        first, last = np.searchsorted(self.fragment_files, [number, number + 1]).tolist()
        return range(first, last)

    # -------------------------------------------------------------------------------------------------- as metadata

    def to_metadata(self, zones: NDArray[np.void], packed_zones: Any = None) -> dict[bytes, bytes]:
        """Return the schema metadata of an index of these zones.

        Parameters
        ----------
        zones : the zones, which the checksum includes.
        packed_zones : their description (see `packed`); None for a table, which has the zones in its columns.
        """
        is_packed = packed_zones is not None
        types = list(dict.fromkeys((file.column_type, file.column_type.name) for file in self.files))
        numbers = {item: number for number, item in enumerate(types)}
        document = {
            "version": PACKED_VERSION if is_packed else VERSION,
            "column": self.column,
            "hashing": HASHING,
            "filter_bytes": self.filter_bytes,
            "types": [type_to_json(column_type) for column_type, _ in types],
            "files": {
                "path": [file.path for file in self.files],
                "size": [file.size for file in self.files],
                "stamp": [file.stamp.decode("latin-1") if is_packed else file.stamp.hex() for file in self.files],
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
        if is_packed:
            document["zones"] = packed_zones
        # Names of files may contain invalid UTF-8, which survives as escaped surrogates.
        data = json.dumps(document, separators=(",", ":")).encode("ascii")
        return {KEY: data, CHECKSUM_KEY: _compute_checksum(data, zones)}

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[bytes, bytes] | None, zones: NDArray[np.void], path: str | None
    ) -> ZoneManifest | None:
        """Read a manifest from schema metadata; None if there is none, as in indexes of Lance.

        Raises
        ------
        BrokenZonesError
            The manifest is damaged, or of a later version.
        """
        data = (metadata or {}).get(KEY)
        if metadata is None or data is None:
            if CHECKSUM_KEY in (metadata or {}):
                raise BrokenZonesError("metadata: the manifest is missing", path=path)
            return None
        try:
            document = json.loads(data)
            version = document["version"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BrokenZonesError("metadata: the manifest is not JSON", path=path) from error
        if version not in (VERSION, PACKED_VERSION):
            problem = f"metadata: it is of version {version!r}; this version of parquet_bloom reads {PACKED_VERSION}"
            raise BrokenZonesError(problem, path=path)
        if metadata.get(CHECKSUM_KEY) != _compute_checksum(data, zones):
            raise BrokenZonesError("the zones or their manifest do not match the checksum", path=path)
        try:
            manifest = cls._parse(document)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise BrokenZonesError("metadata: the manifest is invalid", path=path) from error
        manifest._require_complete(zones, path)
        return manifest

    @classmethod
    def _parse(cls, document: dict[str, Any]) -> ZoneManifest:
        if document["hashing"] != HASHING:
            raise ValueError(document["hashing"])
        types = [type_from_json(item) for item in document["types"]]
        is_text = document["version"] == PACKED_VERSION
        columns = document["files"]
        names = ("path", "size", "stamp", "footer", "data", "type", "row_groups")
        files = [
            ZonedFile(
                number,
                str(path),
                int(size),
                stamp.encode("latin-1") if is_text else bytes.fromhex(stamp),
                int(footer, 16),
                int(data, 16),
                types[type_index],
                int(groups),
            )
            for number, (path, size, stamp, footer, data, type_index, groups) in enumerate(
                zip(*(columns[name] for name in names), strict=True)
            )
        ]
        row_groups, num_rows = (np.array(document["fragments"][name], np.int64) for name in ("row_group", "num_rows"))
        counts = np.array([file.row_groups for file in files], np.int64)
        if (counts < 0).any() or counts.sum() != len(row_groups):
            raise ValueError("fragments")
        fragment_files = np.repeat(np.arange(len(files)), counts)
        within = np.arange(len(fragment_files)) - np.repeat(np.cumsum(counts) - counts, counts)
        if len(num_rows) != len(row_groups) or (row_groups != within).any() or (num_rows < 0).any():
            raise ValueError("fragments")
        column, filter_bytes = document["column"], document["filter_bytes"]
        if not isinstance(column, str) or not isinstance(filter_bytes, int):
            raise ValueError("column")
        return cls(column, filter_bytes, files, fragment_files, row_groups, num_rows)

    def _require_complete(self, zones: NDArray[np.void], path: str | None) -> None:
        """Raise BrokenZonesError unless every row of every row group is in a zone; otherwise rows would be lost."""
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
            raise BrokenZonesError("the zones do not divide the rows of the row groups", path=path)


def _compute_checksum(data: bytes, zones: NDArray[np.void]) -> bytes:
    columns = [np.ascontiguousarray(zones[name], ZONE[name]).tobytes() for name in NUMBERS]
    return b"%016x" % hash_one(b"".join([data, *columns]))
