"""Manifests of an index: one small file that lists all others, written under the next number by each change.

The manifest with the highest number is current. A new one is created atomically, and only if its number is not taken:
a writer that dies leaves no half-made change, and two writers cannot both commit.
"""

from __future__ import annotations

import errno
import json
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyroaring
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_one
from ..errors import BrokenIndexError, ConcurrentChangeError, IndexInUseError, ParquetBloomError, StorageError
from ..hashing.column_type import ColumnType, type_from_json, type_to_json
from ..predicate.key_expression import KeyExpression, first_column, is_of_grams
from ..predicate.pruning_statistics import ColumnShape
from ..storage.index_folder import Folder
from . import json_checks as strict
from .index_part import PartInfo
from .lake_files import CATALOG, OUTSIDE, LakeDescription
from .units import FILE, LEAST_ZONE_ROWS, MOST_ZONE_ROWS, ROW_GROUP, ZONE, Units

FORMAT = 1
_FORMAT_WITH_EXPRESSIONS = 2  # which versions that do not know expressions refuse
_FORMAT_WITH_ZONES = 3  # which versions that do not know zones refuse; it may have expressions
_FORMAT_WITH_GRAMS = 4  # which versions that do not know grams refuse; it may have zones and other expressions
_FORMATS = (FORMAT, _FORMAT_WITH_EXPRESSIONS, _FORMAT_WITH_ZONES, _FORMAT_WITH_GRAMS)
_SETTINGS = {"postings": {"prefix_bits": 40}, "cuckoo": {"num_buckets": 2**32, "fingerprint_bits": 24}}
"""Settings of each layout, and their upper limits."""

_COMMON = ("format", "number", "columns", "layout", "granularity", "settings", "lake", "snapshot", "segments")
_FIELDS: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {
    FORMAT: (_COMMON, ("num_files", "num_live")),
    _FORMAT_WITH_EXPRESSIONS: ((*_COMMON, "expressions"), ("num_files", "num_live")),
    _FORMAT_WITH_ZONES: ((*_COMMON, "zone_rows"), ("num_files", "num_live", "expressions")),
    _FORMAT_WITH_GRAMS: ((*_COMMON, "expressions"), ("num_files", "num_live", "zone_rows")),
}
"""Of each format the fields of a manifest, and those that may be missing. A newer field comes with a newer format."""

_SEGMENT_FIELDS = ("name", "files", "num_files", "num_units", "parts", "removed")
_PART_FIELDS = ("column", "type", "holds", "meaning", "slices")
_SLICE_FIELDS = ("name", "num_bytes", "num_entries", "first", "last")
_EXPRESSION_FIELDS = "function", "columns", "rule"
_FUNCTION_FIELDS = "case", "weights", "path", "target"  # of which each function has its own

_MOST_UNITS = 2**32 - 2
_NAME = re.compile(r"manifest-(\d{12})\.json")
_MOMENT = 0.005  # seconds
_CHECKSUM_BYTES = 18  # a line break, sixteen digits, a line break


Key = tuple[str, ColumnType, ColumnShape, str, tuple[ColumnType, ...]]
"""Column, column type, shape, meaning, and other types of a part; see `ColumnPart`."""


@dataclass(frozen=True)
class ColumnPart:
    """The values of one column and one column type in a segment's files.

    Attributes
    ----------
    column : name of the indexed column, or a `KeyExpression`.
    column_type : stored type of the values; of an expression, those of its first column.
    holds : whether they are the column's values, elements of its list, or parts of a nested value.
    meaning : which stored column of a table's files it is, see `tables.names_in_files`; empty for the one that files
        name so, if nothing else is known of them.
    other_types : of a tuple, the stored types of its columns after the first.
    slices : the files that hold them, each for a range of hashes.
    """

    column: str
    column_type: ColumnType
    holds: ColumnShape
    meaning: str
    other_types: tuple[ColumnType, ...]
    slices: tuple[PartInfo, ...]

    @property
    def key(self) -> Key:
        """Key of the part, unique in its segment."""
        return self.column, self.column_type, self.holds, self.meaning, self.other_types

    @property
    def by_name(self) -> bool:
        """True if the files store these values under the column's name."""
        return not self.meaning or self.meaning.rpartition("#")[0] == first_column(self.column)

    @property
    def num_entries(self) -> int:
        return sum(part.num_entries for part in self.slices)


@dataclass(frozen=True)
class SegmentInfo:
    """A segment: files of the lake that were indexed together.

    Attributes
    ----------
    name : prefix of its file names.
    files : name of the file table.
    num_files, num_units : number of files, and of units (files, row groups or zones) that a lookup can return.
    parts : parts with its values; files refer to them by position.
    removed : numbers of its files that were removed from the index (int64, ascending).
    """

    name: str
    files: str
    num_files: int
    num_units: int
    parts: tuple[ColumnPart, ...]
    removed: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), compare=False)

    @property
    def num_entries(self) -> int:
        return sum(part.num_entries for part in self.parts)

    @property
    def num_bytes(self) -> int:
        """Bytes of the parts, without the file table."""
        return sum(each.num_bytes for part in self.parts for each in part.slices)

    @property
    def kept_files(self) -> int:
        return self.num_files - len(self.removed)

    @property
    def names(self) -> list[str]:
        """Names of all files of the segment in the index's folder."""
        return [self.files, *(each.name for part in self.parts for each in part.slices)]

    def without(self, numbers: NDArray[np.int64]) -> SegmentInfo:
        """Return the segment with more files removed."""
        return replace(self, removed=np.union1d(self.removed, numbers).astype(np.int64))

    def with_columns(self, columns: Sequence[str]) -> SegmentInfo:
        """Return the segment of an index whose columns, of the same names, are now these."""
        parts = (replace(part, column=columns[columns.index(part.column)]) for part in self.parts)
        return replace(self, parts=tuple(parts))


@dataclass(frozen=True)
class IndexManifest:
    """Description of an index at one version.

    Attributes
    ----------
    number : number of this manifest, from 1.
    columns : dotted names of the indexed columns, and `KeyExpression`s.
    layout : "postings" or "cuckoo".
    granularity : "file", "row_group" or "zone": what a unit is.
    settings : settings of the layout.
    lake : how the live files are listed; empty where only the indexed files themselves are checked.
    snapshot : table snapshot that was indexed last; empty for plain files.
    segments : segments of the index.
    num_live : number of files of that snapshot, if every one of them was indexed then; None if that is not known.
    zone_rows : rows of a zone; 0 where units are not zones.
    """

    number: int
    columns: tuple[str, ...]
    layout: str
    granularity: str
    settings: Mapping[str, int]
    lake: LakeDescription = field(default_factory=LakeDescription)
    snapshot: Mapping[str, object] = field(default_factory=dict)
    segments: tuple[SegmentInfo, ...] = ()
    num_live: int | None = None
    zone_rows: int = 0

    @property
    def units(self) -> Units:
        """What a unit is."""
        return Units(self.granularity, self.zone_rows)

    @property
    def names(self) -> set[str]:
        """Names of all files in the index's folder that the manifest refers to, including itself."""
        return {manifest_name(self.number), *(name for segment in self.segments for name in segment.names)}

    @property
    def expressions(self) -> tuple[KeyExpression, ...]:
        """The expressions among the columns."""
        return tuple(column for column in self.columns if isinstance(column, KeyExpression))

    def has_column(self, name: str) -> bool:
        """Return whether a column, not an expression of such a text, is indexed."""
        return any(column == name and not isinstance(column, KeyExpression) for column in self.columns)

    @property
    def num_files(self) -> int:
        return sum(segment.kept_files for segment in self.segments)

    def next(self, **changes: Any) -> IndexManifest:
        """Return the next manifest."""
        return replace(self, number=self.number + 1, **changes)

    def with_weights(self, learnt: Mapping[str, KeyExpression]) -> IndexManifest:
        """Return the manifest with other weights of some grams."""
        columns = [learnt.get(column, column) for column in self.columns]
        segments = tuple(segment.with_columns(columns) for segment in self.segments)
        return replace(self, columns=tuple(columns), segments=segments)


def manifest_name(number: int) -> str:
    return f"manifest-{number:012d}.json"


def numbers_in(names: Iterable[str]) -> list[int]:
    """Return the numbers of the manifests among the files of a folder, ascending."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def newest(folder: Folder) -> IndexManifest:
    """Read the current manifest.

    Raises
    ------
    StorageError
        There is no index.
    BrokenIndexError
        The manifest is damaged.
    """
    missing: ParquetBloomError | None = None
    for _ in range(3):  # another process may have replaced and swept it between listing and reading
        try:
            numbers = numbers_in(folder.names())
        except StorageError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            raise StorageError("there is no index", path=folder.path, errno=errno.ENOENT) from None
        if not numbers:  # a folder that is listed while files in it come and go may show none of them
            missing = StorageError("there is no index", path=folder.path, errno=errno.ENOENT)
            time.sleep(_MOMENT)
            continue
        try:
            return read(folder, numbers[-1])
        except (StorageError, ConcurrentChangeError) as error:
            require_gone(error)
            missing = error
    assert missing is not None
    raise missing


def require_gone(error: ParquetBloomError) -> None:
    """Raise the error again unless it means that a file is gone or changed, which a sweep may have caused."""
    if isinstance(error, StorageError) and error.errno not in (None, errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
        raise error


def read(folder: Folder, number: int) -> IndexManifest:
    """Read the manifest of a number; raises as `newest`."""
    name = manifest_name(number)
    with folder.open(name) as source:
        data = source.read_at(0, source.size)
    body, line = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if line != _checksum(body):
        raise BrokenIndexError("the manifest does not fit its checksum", path=folder.path_of(name))
    try:
        fields = strict.fields(json.loads(body))
        number_of_format = strict.number(fields.get("format"))
        if number_of_format not in _FORMATS:
            known = f"{', '.join(map(str, _FORMATS[:-1]))} and {_FORMATS[-1]}"
            raise BrokenIndexError(f"it is an index of format {number_of_format}; this version knows {known}")
        strict.require_names(fields, *_FIELDS[number_of_format])
        if strict.number(fields["number"]) != number:
            raise BrokenIndexError(f"the manifest says that its number is {fields['number']}")
        columns = _parse_columns(fields)
        layout = strict.one_of(fields["layout"], tuple(_SETTINGS))
        units = _parse_units(fields)
        settings = strict.fields(fields["settings"])
        strict.require_names(settings, tuple(_SETTINGS[layout]))
        segments = tuple(_parse_segment(segment, columns) for segment in strict.items(fields["segments"]))
        num_files = sum(segment.kept_files for segment in segments)
        if "num_files" in fields and strict.number(fields["num_files"]) != num_files:  # a segment may be missing
            raise BrokenIndexError(f"the manifest says that it has {fields['num_files']} files, and lists {num_files}")
        return IndexManifest(
            number,
            columns,
            layout,
            units.granularity,
            {name: strict.number(settings[name], most, 1) for name, most in _SETTINGS[layout].items()},
            _parse_lake(strict.fields(fields["lake"])),
            strict.fields(fields["snapshot"]),
            segments,
            None if fields.get("num_live") is None else strict.number(fields["num_live"]),
            units.zone_rows,
        )
    except ParquetBloomError as error:
        error.path = error.path or folder.path_of(name)
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BrokenIndexError(f"the manifest cannot be understood: {error}", path=folder.path_of(name)) from error


def write(folder: Folder, manifest: IndexManifest) -> None:
    """Write a manifest, which becomes the current one.

    Raises
    ------
    IndexInUseError
        Another writer has committed this number.
    StorageError
        It cannot be written; the previous one is still current.
    """
    body = json.dumps(
        {
            "format": _find_format(manifest),
            "number": manifest.number,
            "columns": manifest.columns,
            "layout": manifest.layout,
            "granularity": manifest.granularity,
            "settings": dict(manifest.settings),
            "lake": dict(manifest.lake),
            "snapshot": dict(manifest.snapshot),
            "segments": [_segment_to_json(segment) for segment in manifest.segments],
            "num_files": manifest.num_files,
        }
        | ({} if manifest.num_live is None else {"num_live": manifest.num_live})
        | ({"zone_rows": manifest.zone_rows} if manifest.granularity == ZONE else {})
        | ({"expressions": {key: key.to_json() for key in manifest.expressions}} if manifest.expressions else {})
    ).encode()
    try:
        with folder.create(manifest_name(manifest.number), new=True) as new:
            new.write(body)
            new.write(_checksum(body))
            new.commit()
    except ConcurrentChangeError as error:
        raise IndexInUseError("another writer has changed the index meanwhile", path=folder.path) from error


def _find_format(manifest: IndexManifest) -> int:
    if any(map(is_of_grams, manifest.columns)):
        return _FORMAT_WITH_GRAMS
    if manifest.granularity == ZONE:
        return _FORMAT_WITH_ZONES
    return _FORMAT_WITH_EXPRESSIONS if manifest.expressions else FORMAT


def _checksum(body: bytes) -> bytes:
    return f"\n{hash_one(body):016x}\n".encode()


def _segment_to_json(segment: SegmentInfo) -> dict[str, object]:
    removed = pyroaring.BitMap(segment.removed.tolist()).serialize() if len(segment.removed) else b""
    return {
        "name": segment.name,
        "files": segment.files,
        "num_files": segment.num_files,
        "num_units": segment.num_units,
        "parts": [
            {
                "column": part.column,
                "type": type_to_json(part.column_type),
                "holds": part.holds.value,
                "meaning": part.meaning,
                "slices": [asdict(each) for each in part.slices],
            }
            | ({"other_types": [*map(type_to_json, part.other_types)]} if part.other_types else {})
            for part in segment.parts
        ],
        "removed": b64encode(removed).decode(),
    }


def _parse_columns(fields: Mapping[str, object]) -> tuple[str, ...]:
    """Return the columns, of which formats 2 to 4 say which are expressions."""
    columns = [strict.text(column) for column in strict.items(fields["columns"])]
    expressions = strict.fields(fields.get("expressions", {}))
    if not set(expressions) <= set(columns):
        raise ValueError("an expression is not among the columns")
    if not columns or len(set(columns)) < len(columns):
        raise ValueError("its columns are not one or more different ones")
    for expression in expressions.values():
        strict.require_names(strict.fields(expression), _EXPRESSION_FIELDS, _FUNCTION_FIELDS)
    parsed = tuple(
        KeyExpression.from_json(column, strict.fields(expressions[column])) if column in expressions else column
        for column in columns
    )
    has_grams = any(map(is_of_grams, parsed))
    if has_grams != (fields["format"] == _FORMAT_WITH_GRAMS):
        raise ValueError(f"an index of format {fields['format']} says something else of grams")
    return parsed


def _parse_units(fields: Mapping[str, object]) -> Units:
    """Return what a unit is: a zone where the manifest says how many rows it has, else a file or a row group."""
    if "zone_rows" not in fields:
        return Units(strict.one_of(fields["granularity"], (FILE, ROW_GROUP)))
    zone_rows = strict.number(fields["zone_rows"], MOST_ZONE_ROWS, LEAST_ZONE_ROWS)
    return Units(strict.one_of(fields["granularity"], (ZONE,)), zone_rows)


def _find_column(fields: Mapping[str, object], columns: tuple[str, ...]) -> str:
    """Return the column, or expression, that a part has values of."""
    return columns[columns.index(strict.one_of(fields["column"], columns))]


def _parse_other_types(fields: Mapping[str, object], columns: tuple[str, ...]) -> tuple[ColumnType, ...]:
    """Return the other types of a part, as many as its expression has columns after the first."""
    types = tuple(type_from_json(strict.fields(stored)) for stored in strict.items(fields.get("other_types", [])))
    column = _find_column(fields, columns)
    if len(types) != (len(column.columns) - 1 if isinstance(column, KeyExpression) else 0):
        raise ValueError(f"a part of {column!r} has {1 + len(types)} types")
    return types


def _parse_lake(fields: Mapping[str, object]) -> LakeDescription:
    """Return how the live files are listed, as `listing.list_lake` takes it."""
    locations = {kind: where for kind, where in fields.items() if kind not in (OUTSIDE, CATALOG)}
    if len(locations) > 1 or fields.get(OUTSIDE, True) is not True:
        raise ValueError("a lake is one of paths, delta and iceberg")
    if locations.get("paths") == []:
        raise ValueError("its lake has no paths")
    for kind, where in locations.items():
        several = strict.one_of(kind, ("paths", "delta", "iceberg")) == "paths" or isinstance(where, list)
        for location in strict.items(where) if several else [where]:
            if not strict.text(location):
                raise ValueError("a path of its lake is empty")
    if CATALOG in fields:
        strict.text(fields[CATALOG])
        strict.one_of(next(iter(locations), ""), ("iceberg",))
    elif isinstance(locations.get("iceberg"), list) or isinstance(locations.get("delta"), list):
        raise ValueError("a table is at one path")
    return cast(LakeDescription, fields)


def _parse_slice(stored: object) -> PartInfo:
    fields = strict.fields(stored)
    strict.require_names(fields, _SLICE_FIELDS)
    numbers = (strict.number(fields[name]) for name in ("num_bytes", "num_entries", "first", "last"))
    return PartInfo(strict.text(fields["name"]), *numbers)


def _require_all_hashes(slices: tuple[PartInfo, ...]) -> tuple[PartInfo, ...]:
    """Return a part's slices, checked to cover all hashes: a lookup of a hash in a gap would wrongly find nothing."""
    ends = [-1, *(each.last for each in slices)]
    if [each.first for each in slices] != [end + 1 for end in ends[:-1]] or ends[-1] != strict.MOST_HASH:
        raise BrokenIndexError("the slices of a part do not cover all hashes")
    return slices


def _parse_segment(stored: object, columns: tuple[str, ...]) -> SegmentInfo:
    fields = strict.fields(stored)
    strict.require_names(fields, _SEGMENT_FIELDS)
    stored_parts = [strict.fields(part) for part in strict.items(fields["parts"])]
    for part in stored_parts:
        strict.require_names(part, _PART_FIELDS, ("other_types",))
    num_files = strict.number(fields["num_files"], _MOST_UNITS)
    num_units = strict.number(fields["num_units"], _MOST_UNITS)
    bitmap = b64decode(strict.text(fields["removed"]), validate=True)
    removed = np.array(pyroaring.BitMap.deserialize(bitmap) if bitmap else (), np.int64)
    if len(removed) and removed[-1] >= num_files:
        raise BrokenIndexError(f"file {removed[-1]} of a segment of {num_files} files is said to be removed")
    parts = tuple(
        ColumnPart(
            _find_column(part, columns),
            type_from_json(strict.fields(part["type"])),
            ColumnShape(part["holds"]),
            strict.text(part["meaning"]),
            _parse_other_types(part, columns),
            _require_all_hashes(tuple(map(_parse_slice, strict.items(part["slices"])))),
        )
        for part in stored_parts
    )
    return SegmentInfo(strict.text(fields["name"]), strict.text(fields["files"]), num_files, num_units, parts, removed)


def list_lake_roots(lake: LakeDescription) -> list[str]:
    """Return the folders and patterns of an index's lake, as recorded in its manifest."""
    if CATALOG in lake:  # which knows where the table is
        return []
    tables = (lake.get("delta"), lake.get("iceberg"))
    return [*lake.get("paths", ()), *(path for path in tables if isinstance(path, str))]
