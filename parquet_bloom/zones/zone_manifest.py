"""What is stored in a zone index: the table of zones in Lance's schema, and the manifest of the files it is over.

The manifest is JSON in the schema metadata, under `parquet_bloom.zones`. `parquet_bloom.zones.checksum` is the XXH64
(16 hexadecimal digits) of these bytes followed by the zones: fragment_id, zone_start, zone_length (uint64,
little-endian) and has_null (a byte each), column after column.

Besides the table of zones, which any program can read, the manifest has the zones themselves, so that opening an index
takes one request: the number of rows of each, and whether it has nulls. It is packed by zlib and base64, since metadata
are text. Right before the container's footer are 16 bytes, the seal, which the metadata repeat. A program that rewrites
the table, perhaps with rows in another order, copies the metadata but not the seal, and in this case the table is read.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_one
from ..errors import BrokenZonesError
from ..hashing.column_type import ColumnType, type_from_json, type_to_json
from ..redaction import shown_redacted
from ..storage import Source
from .zone_hashes import HASHING

FILTERS = "bloom_filter_data"
NUMBERS = ("fragment_id", "zone_start", "zone_length", "has_null")

SCHEMA = pa.schema(
    [
        pa.field("fragment_id", pa.uint64(), nullable=False),
        pa.field("zone_start", pa.uint64(), nullable=False),
        pa.field("zone_length", pa.uint64(), nullable=False),
        pa.field("has_null", pa.bool_(), nullable=False),
        pa.field(FILTERS, pa.binary(), nullable=False),
    ]
)

ANSWER = pa.schema([SCHEMA.field(name) for name in NUMBERS[:3]])

ZONE = np.dtype([("fragment_id", "<u8"), ("zone_start", "<u8"), ("zone_length", "<u8"), ("has_null", "?")])

ITEMS_KEY, PROBABILITY_KEY = b"bloomfilter_item", b"bloomfilter_probability"
DEFAULT_ITEMS, DEFAULT_PROBABILITY = 8192, 0.00057
_MAX_ROWS = 1 << 62


@dataclass(frozen=True)
class FilterSizing:
    """The parameters of filter sizes: items per zone, and false-positive probability."""

    items: int
    probability: float

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None, path: str | None) -> FilterSizing:
        """Read the parameters from schema metadata; Lance's defaults if they are missing.

        Raises
        ------
        BrokenZonesError
            They are invalid.
        """
        metadata = metadata or {}
        try:
            items = int(metadata.get(ITEMS_KEY, b"%d" % DEFAULT_ITEMS))
            probability = float(metadata.get(PROBABILITY_KEY, repr(DEFAULT_PROBABILITY).encode()))
            if not 1 <= items < 1 << 63 or not 0 < probability < 1:
                raise ValueError("out of range")
        except ValueError:
            texts = [metadata.get(key, b"")[:20].decode("utf-8", "replace") for key in (ITEMS_KEY, PROBABILITY_KEY)]
            problem = f"metadata: filters of {texts[0]} items at {texts[1]} cannot be"
            raise BrokenZonesError(problem, path=path) from None
        return cls(items, probability)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """Return the schema metadata for these parameters."""
        return {ITEMS_KEY: str(self.items).encode(), PROBABILITY_KEY: repr(self.probability).encode()}


def require_schema(schema: pa.Schema, path: str | None) -> None:
    """Raise BrokenZonesError unless the columns are those of a zone index; their order does not matter."""
    for field in SCHEMA:
        indices = schema.get_all_field_indices(field.name)
        if len(indices) != 1:
            problem = f"it is not a zone index: {len(indices) or 'no'} columns of the name {field.name}"
            raise BrokenZonesError(problem, path=path)
        arrow_type = schema.field(indices[0]).type
        if arrow_type != field.type and not (field.name == FILTERS and arrow_type == pa.large_binary()):
            problem = f"it is not a zone index: column {field.name} has values of {arrow_type}, not of {field.type}"
            raise BrokenZonesError(problem, path=path)


def read_zones(table: pa.Table, path: str | None) -> NDArray[np.void]:
    """Read the zones of a table with a valid schema, without their filters, as an array of ZONE.

    Raises
    ------
    BrokenZonesError
        A zone is null, empty or too large, or two zones of a fragment overlap.
    """
    zones = np.empty(table.num_rows, ZONE)
    for name in NUMBERS:
        column = table[name]
        if column.null_count:
            raise BrokenZonesError(f"column {name} has nulls", path=path)
        zones[name] = column.combine_chunks().to_numpy(zero_copy_only=False) if len(column) else 0
    starts, lengths = zones["zone_start"], zones["zone_length"]
    bad = (lengths < 1) | (lengths > _MAX_ROWS) | (starts > _MAX_ROWS)
    if bad.any():
        first = int(bad.argmax())
        problem = f"zone {first}: {lengths[first]} rows from row {starts[first]} on cannot be"
        raise BrokenZonesError(problem, path=path)
    order = np.lexsort((starts, zones["fragment_id"]))
    fragments, firsts, ends = zones["fragment_id"][order], starts[order], (starts + lengths)[order]
    overlap = (fragments[1:] == fragments[:-1]) & (firsts[1:] < ends[:-1])
    if overlap.any():
        first = int(overlap.argmax())
        problem = f"fragment {fragments[first]}: zones {order[first]} and {order[first + 1]} have rows in common"
        raise BrokenZonesError(problem, path=path)
    return zones


def to_zone_table(zones: NDArray[np.void]) -> pa.Table:
    """Return zones as a table, without their filters."""
    return pa.table({name: np.ascontiguousarray(zones[name]) for name in NUMBERS})


def to_table(zones: NDArray[np.void], filters: pa.ChunkedArray, metadata: Mapping[bytes, bytes]) -> pa.Table:
    """Return zones and their filters as a table in Lance's schema."""
    columns = [pa.array(np.ascontiguousarray(zones[name])) for name in NUMBERS]
    return pa.Table.from_arrays([*columns, filters], schema=SCHEMA.with_metadata(metadata))


def to_answer(zones: NDArray[np.void]) -> pa.Table:
    """Return zones as the table of a query result."""
    columns = [pa.array(np.ascontiguousarray(zones[name])) for name in NUMBERS[:3]]
    return pa.Table.from_arrays(columns, schema=ANSWER)


VERSION = 1
PACKED_VERSION = 2
"""Also contains the zones, see `describe_zones`, and version tokens of files as text."""

KEY, CHECKSUM_KEY = b"parquet_bloom.zones", b"parquet_bloom.zones.checksum"


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


Document = Mapping[str, Any]
"""A manifest as it is stored; what reads it converts errors of its form."""


def read_document(metadata: Mapping[bytes, bytes], path: str | None) -> Document | None:
    """Return the manifest in unpacked metadata; None if there is none, as in indexes of Lance.

    Raises
    ------
    BrokenZonesError
        It is not a JSON object with a version.
    """
    if KEY not in metadata:
        return None
    try:
        document = json.loads(metadata[KEY])
    except (ValueError, RecursionError) as error:
        raise BrokenZonesError("metadata: the manifest is not JSON", path=path) from error
    if not isinstance(document, dict) or "version" not in document:
        raise BrokenZonesError("metadata: the manifest is not JSON", path=path)
    return document


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

    def to_metadata(
        self, zones: NDArray[np.void], packed_zones: Mapping[str, object] | None = None
    ) -> dict[bytes, bytes]:
        """Return the schema metadata of an index of these zones.

        Parameters
        ----------
        zones : the zones, which the checksum includes.
        packed_zones : their description (see `describe_zones`); None for a table, which has the zones in its columns.
        """
        is_packed = packed_zones is not None
        types = list(dict.fromkeys((file.column_type, file.column_type.name) for file in self.files))
        numbers = {item: number for number, item in enumerate(types)}
        document: dict[str, object] = {
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
        metadata = metadata or {}
        document = read_document(metadata, path)
        if document is None:
            if CHECKSUM_KEY in metadata:
                raise BrokenZonesError("metadata: the manifest is missing", path=path)
            return None
        version = document["version"]
        if version not in (VERSION, PACKED_VERSION):
            problem = f"metadata: it is of version {version!r}; this version of parquet_bloom reads {PACKED_VERSION}"
            raise BrokenZonesError(problem, path=path)
        if metadata.get(CHECKSUM_KEY) != _compute_checksum(metadata[KEY], zones):
            raise BrokenZonesError("the zones or their manifest do not match the checksum", path=path)
        try:
            manifest = cls._parse(document)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise BrokenZonesError("metadata: the manifest is invalid", path=path) from error
        manifest._require_complete(zones, path)
        return manifest

    @classmethod
    def _parse(cls, document: Document) -> ZoneManifest:
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


SEAL_KEY = b"parquet_bloom.zones.seal"
_SEAL = re.compile(rb"[0-9a-f]{32}")  # 16 bytes

_PACKED = b"zlib:"
_MAX_BYTES = 1 << 31  # of unpacked metadata
_SEAL_SEARCH_BYTES = 64  # before a footer: Arrow has an end-of-stream mark after the seal


def make_seal(metadata: Mapping[bytes, bytes]) -> bytes:
    """Return 16 bytes that are unique to an index, and the same when it is built again."""
    return b"".join(hash_one(prefix + metadata[KEY]).to_bytes(8, "little") for prefix in (b"seal 0", b"seal 1"))


def pack_metadata(metadata: Mapping[bytes, bytes], seal: bytes) -> dict[bytes, bytes]:
    """Return the metadata for a file with a seal."""
    data = _PACKED + b64encode(zlib.compress(metadata[KEY], 9))
    return {**metadata, KEY: data, SEAL_KEY: seal.hex().encode()}


def unpack_metadata(metadata: Mapping[bytes, bytes], path: str | None) -> dict[bytes, bytes]:
    """Return the metadata before packing, without the seal.

    Raises
    ------
    BrokenZonesError
        They cannot be unpacked.
    """
    result = {key: value for key, value in metadata.items() if key != SEAL_KEY}
    data = result.get(KEY, b"")
    if data.startswith(_PACKED):
        try:
            decompressor = zlib.decompressobj()
            result[KEY] = decompressor.decompress(b64decode(data[len(_PACKED) :], validate=True), _MAX_BYTES)
            if not decompressor.eof:
                raise ValueError("its end is missing")
        except (zlib.error, ValueError) as error:
            raise BrokenZonesError(f"metadata: the manifest cannot be unpacked: {error}", path=path) from error
    return result


def cache_footer(source: Source, footer_start: int) -> None:
    """Cache the footer of a remote file with the bytes before it, without reading anything twice."""
    if source.path is None:
        cached, cached_from = source.kept
        start = max(0, footer_start - _SEAL_SEARCH_BYTES)
        if not cached:
            cached_from = source.size
        if start < cached_from:
            source.keep(start, source.read_at(start, cached_from - start) + cached)


def is_sealed(source: Source, metadata: Mapping[bytes, bytes], footer_start: int) -> bool:
    """Return whether a file has the seal of its metadata, and so was not rewritten."""
    written = metadata.get(SEAL_KEY, b"")
    if not _SEAL.fullmatch(written):
        return False
    start = max(0, footer_start - _SEAL_SEARCH_BYTES)
    return bytes.fromhex(written.decode()) in source.read_at(start, footer_start - start)


class PackedZones(NamedTuple):
    """The zones of an index in its metadata.

    Attributes
    ----------
    zones : an array of ZONE.
    batch : number of zones in each row group or batch of the container except the last.
    filter_bytes : size of each filter.
    """

    zones: NDArray[np.void]
    batch: int
    filter_bytes: int


def describe_zones(zones: NDArray[np.void], rows_per_zone: int, batch: int) -> dict[str, object]:
    """Describe zones in JSON; each has `rows_per_zone` rows, except the last one of each row group."""
    return {
        "rows": rows_per_zone,
        "batch": batch,
        "has_null": b64encode(np.packbits(zones["has_null"]).tobytes()).decode(),
    }


def unpack_zones(document: Document | None, most: int, path: str | None) -> PackedZones | None:
    """Read the zones of an index from its manifest; None if it does not contain them.

    Parameters
    ----------
    document : as `read_document` returns it.
    most : maximum number of zones.

    Raises
    ------
    BrokenZonesError
        The description of zones is invalid.
    """
    if document is None or "zones" not in document:
        return None
    try:
        rows_per_zone, batch, filter_bytes = (
            document["zones"]["rows"],
            document["zones"]["batch"],
            document["filter_bytes"],
        )
        if not all(type(number) is int and 1 <= number < 1 << 62 for number in (rows_per_zone, batch, filter_bytes)):
            raise ValueError("numbers")
        rows = np.array(document["fragments"]["num_rows"], np.int64)
        if (rows < 0).any():
            raise ValueError("num_rows")
        counts = rows // rows_per_zone + (rows % rows_per_zone > 0)
        if (counts > most).any() or (count := int(counts.sum())) > most:
            raise ValueError("zones")
        bits = np.frombuffer(b64decode(document["zones"]["has_null"], validate=True), np.uint8)
        if len(bits) != -(-count // 8):
            raise ValueError("has_null")
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise BrokenZonesError("metadata: the description of zones is invalid", path=path) from error
    zones = divide_rows(rows, rows_per_zone)
    zones["has_null"] = np.unpackbits(bits)[:count].astype(np.bool_)
    return PackedZones(zones, batch, filter_bytes)


def divide_rows(rows: NDArray[np.int64], rows_per_zone: int) -> NDArray[np.void]:
    """Return the zones of fragments with so many rows each, as an array of ZONE whose `has_null` is not set."""
    counts = -(-rows // rows_per_zone)
    zones = np.zeros(int(counts.sum()), ZONE)
    zones["fragment_id"] = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(zones)) - np.repeat(np.cumsum(counts) - counts, counts)
    zones["zone_start"] = within * rows_per_zone
    zones["zone_length"] = np.minimum(rows_per_zone, np.repeat(rows, counts) - within * rows_per_zone)
    return zones
