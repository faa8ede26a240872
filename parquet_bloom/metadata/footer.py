"""A Parquet footer as bytes: where its parts stand, what they say, and the same footer with other filter locations.

The footer is never re-encoded from a schema of ours: `index_footer` notes positions, parts are decoded when they are
asked for, and `Footer.splice` writes fields 14 and 15 of chosen column chunks and copies everything else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..errors import EncryptedFileError, ErrorContext, MalformedFooterError, NotParquetError, TruncatedFileError
from .thrift_compact import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    index_footer,
    read_struct,
    read_value,
    splice_filters,
    write_struct,
)

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
ORC_MAGIC = b"ORC"  # before the last byte of files of that format
TAIL_BYTES = 8  # footer length and magic

PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_UNCOMPRESSED = 0  # the codec
_ANY_NAME = b"x"  # of a column that is shown to pyarrow, which decodes names: the file's may be no text
_MAX_SCHEMAS = 64  # that are remembered: the files of a lake have few
_MAX_DEPTH = 256  # of nested columns: more than any reader takes
_INT96, _FIXED = PHYSICAL_TYPES.index("INT96"), PHYSICAL_TYPES.index("FIXED_LEN_BYTE_ARRAY")


def find_footer(tail: bytes, file_size: int) -> tuple[int, int]:
    """Where the footer of a file lies, from the file's last bytes: (start, length).

    Raises
    ------
    NotParquetError, EncryptedFileError, TruncatedFileError
    """
    if file_size < len(MAGIC) + TAIL_BYTES or len(tail) < TAIL_BYTES:
        raise NotParquetError(f"not a Parquet file: {file_size} bytes are too few")
    if tail[-4:] == ENCRYPTED_MAGIC:
        raise EncryptedFileError("the footer is encrypted")
    if tail[-4:-1] == ORC_MAGIC:
        raise NotParquetError("not a Parquet file: it ends as ORC files do")
    if tail[-4:] != MAGIC:
        raise NotParquetError("not a Parquet file, or one cut off: it does not end in PAR1")
    length = int.from_bytes(tail[-8:-4], "little")
    start = file_size - TAIL_BYTES - length
    if start < len(MAGIC):
        raise TruncatedFileError(f"the footer is said to be {length} bytes long, the file has {file_size}")
    return start, length


def _as_type(value: Any, kind: type) -> Any:
    """A field's value; None where it is of another type, which readers pass over."""
    return value if type(value) is kind else None


def _repetition(element: Mapping[int, Any]) -> int:
    return _as_type(element.get(3), int) or _REQUIRED


@dataclass(frozen=True, eq=False)
class Leaf:
    """A column that holds values: a leaf of the schema.

    Attributes
    ----------
    index : its number in schema order, which is that of the row groups' column chunks.
    path : its names from below the root down; `name` is the same, dotted.
    physical : name of the physical type; `length` its width in bytes when FIXED_LEN_BYTE_ARRAY.
    converted, logical, scale, precision : raw annotations (ConvertedType number, LogicalType {member: parameters}).
    repeated : whether a list, a map or a bare repeated field stands in the path, so that a row may hold many values.
    """

    index: int
    path: tuple[str, ...]
    physical: str
    length: int | None
    converted: int | None
    logical: Mapping[int, Any] | None
    scale: int | None
    precision: int | None
    repeated: bool
    nodes: tuple[Mapping[int, Any], ...]

    @cached_property
    def name(self) -> str:
        return ".".join(self.path)

    @cached_property
    def encoded_path(self) -> bytes:
        """The path as column chunks have it: a list of names."""
        return write_struct([(1, LIST, (BINARY, [node[4] for node in self.nodes]))])[1:-1]

    @property
    def required(self) -> bool:
        """Whether a column directly below the root has no nulls by its schema, and so no levels in its pages."""
        return len(self.nodes) == 1 and _repetition(self.nodes[0]) == _REQUIRED


@dataclass(frozen=True)
class Statistics:
    """A column chunk's statistics as stored; None where absent. `min_value` and `max_value` are plain-encoded."""

    null_count: int | None
    min_value: bytes | None
    max_value: bytes | None
    legacy_min: bytes | None
    legacy_max: bytes | None

    @property
    def bounded(self) -> bool:
        """Whether a smallest or a largest value is told, in whichever order."""
        bounds = (self.min_value, self.max_value, self.legacy_min, self.legacy_max)
        return any(bound is not None for bound in bounds)


class ColumnPages(NamedTuple):
    """Some pages of a column, as `Footer.columns_file` takes them.

    Attributes
    ----------
    leaf : the column.
    dictionary, pages : its dictionary page, or nothing, and data pages.
    plain : whether the pages are not compressed, whatever the footer says.
    """

    leaf: Leaf
    dictionary: bytes | memoryview
    pages: bytes | memoryview
    plain: bool = False


@lru_cache(maxsize=_MAX_SCHEMAS)
def _parse_schema(encoded: bytes) -> list[dict[int, Any]]:
    elements = read_value(encoded, 0, LIST)
    if not elements or not all(isinstance(element, dict) for element in elements):
        raise MalformedFooterError("metadata: the schema is not a list of structs")
    return list(elements)


@lru_cache(maxsize=_MAX_SCHEMAS)
def _parse_leaves(encoded: bytes) -> list[Leaf]:
    leaves: list[Leaf] = []
    # Nodes to be filled, as [children left, names, elements, repeated]. No recursion: the depth is the file's.
    open_nodes: list[list[Any]] = []
    for position, element in enumerate(_parse_schema(encoded)):
        num_children = element.get(5, 0)
        name = element.get(4)
        if not isinstance(name, bytes) or not isinstance(num_children, int):
            raise MalformedFooterError(f"metadata: schema element {position} lacks its name")
        if len(open_nodes) > _MAX_DEPTH:
            raise MalformedFooterError(f"metadata: columns are nested more than {_MAX_DEPTH} deep")
        if position == 0:
            open_nodes.append([num_children, (), (), False])
            continue
        while open_nodes and open_nodes[-1][0] == 0:
            open_nodes.pop()
        if not open_nodes:
            raise MalformedFooterError("metadata: the schema has more elements than its groups announce")
        parent = open_nodes[-1]
        parent[0] -= 1
        path = (*parent[1], str(name, "utf-8", "replace"))
        nodes = (*parent[2], element)
        repeated = parent[3] or _repetition(element) == _REPEATED
        if 1 not in element:
            open_nodes.append([num_children, path, nodes, repeated])
            continue
        kind = element[1]
        if not isinstance(kind, int) or not 0 <= kind < len(PHYSICAL_TYPES):
            raise MalformedFooterError(f"metadata: physical type {kind} does not exist", column=".".join(path))
        leaves.append(
            Leaf(
                index=len(leaves),
                path=path,
                physical=PHYSICAL_TYPES[kind],
                length=_as_type(element.get(2), int) if kind == _FIXED else None,
                converted=_as_type(element.get(6), int),
                logical=_as_type(element.get(10), dict),
                scale=_as_type(element.get(7), int),
                precision=_as_type(element.get(8), int),
                repeated=repeated,
                nodes=nodes,
            )
        )
    if any(node[0] for node in open_nodes):
        raise MalformedFooterError("metadata: the schema has fewer elements than its groups announce")
    return leaves


class Footer:
    """The footer of one file.

    Parameters
    ----------
    data : the footer's bytes, without length and magic.
    start : where it begins in the file.

    Raises
    ------
    MalformedFooterError
    """

    def __init__(self, data: bytes, start: int):
        self.data = data
        self.start = start
        self._positions, self.row_groups, self.chunks = index_footer(data)
        for number, what in ((2, "schema"), (3, "num_rows"), (4, "row groups")):
            if number not in self._positions:
                raise MalformedFooterError(f"metadata: the footer has no {what}")
        for row_group in np.flatnonzero(self.row_groups["num_rows"] < 0)[:1].tolist():
            raise MalformedFooterError("metadata: it does not say how many rows it has", row_group=row_group)

    @property
    def num_row_groups(self) -> int:
        return len(self.row_groups)

    @property
    def num_rows(self) -> int:
        return self._positions.get("num_rows", 0)

    @property
    def encrypted(self) -> bool:
        """True for a plaintext footer that is signed, or whose file has encrypted columns."""
        return 8 in self._positions or 9 in self._positions

    @cached_property
    def created_by(self) -> str | None:
        if 6 not in self._positions:
            return None
        value = read_value(self.data, self._positions[6], BINARY)
        return str(value, "utf-8", "replace")

    @cached_property
    def key_value_metadata(self) -> dict[bytes, bytes]:
        if 5 not in self._positions:
            return {}
        pairs = read_value(self.data, self._positions[5], LIST)
        return {
            pair[1]: pair.get(2, b"") for pair in pairs if isinstance(pair, dict) and isinstance(pair.get(1), bytes)
        }

    @cached_property
    def type_ordered(self) -> frozenset[int]:
        """Leaves whose min_value and max_value follow the order that the format defines for their type."""
        if 7 not in self._positions:
            return frozenset()
        orders = read_value(self.data, self._positions[7], LIST)
        return frozenset(i for i, order in enumerate(orders) if isinstance(order, dict) and set(order) == {1})

    # ------------------------------------------------------------------------------------------------- schema

    @cached_property
    def schema(self) -> list[dict[int, Any]]:
        return _parse_schema(self._encoded_schema)

    @cached_property
    def leaves(self) -> list[Leaf]:
        return _parse_leaves(self._encoded_schema)

    @property
    def _encoded_schema(self) -> bytes:
        """The schema's bytes, and perhaps some behind them: equal ones are one schema."""
        start = self._positions[2]
        behind = [place for number, place in self._positions.items() if number != "num_rows" and place > start]
        return bytes(self.data[start : min(behind)])

    @property
    def encrypted_leaves(self) -> list[Leaf]:
        """The columns that are encrypted in any row group."""
        columns = set(self.chunks["column"][self.chunks["encrypted"] != 0].tolist())
        return [leaf for leaf in self.leaves if leaf.index in columns]

    # ------------------------------------------------------------------------------------------------- chunks

    def num_rows_of(self, row_group: int) -> int:
        return int(self.row_groups["num_rows"][row_group])

    def empty(self, row_group: int) -> bool:
        """Whether a row group has no rows, by all that the footer says of it."""
        group = self.row_groups[row_group]
        first, count = int(group["first_chunk"]), int(group["num_columns"])
        no_values = not self.chunks["num_values"][first : first + count].any()
        return bool(group["num_rows"] == 0 and count == len(self.leaves) and no_values)

    def chunk(self, row_group: int, leaf: Leaf) -> np.void:
        """The record (CHUNK_DTYPE) of a column chunk.

        Raises
        ------
        MalformedFooterError
            The chunk is missing, has no metadata, or is another column's by its own path or type.
        EncryptedFileError
            Its metadata cannot be seen.
        """
        place: ErrorContext = {"row_group": row_group, "column": leaf.name}
        group = self.row_groups[row_group]
        if group["num_columns"] != len(self.leaves):
            raise MalformedFooterError(
                f"metadata: {group['num_columns']} column chunks for {len(self.leaves)} columns", **place
            )
        record = self.chunks[int(group["first_chunk"]) + leaf.index]
        if record["meta_start"] < 0:
            if record["encrypted"]:
                raise EncryptedFileError("the column is encrypted", **place)
            raise MalformedFooterError("metadata: missing", **place)
        if record["path_start"] >= 0 and not self._names(int(record["path_start"]), leaf):
            path = read_value(self.data, int(record["path_start"]), LIST)
            if [str(part, "utf-8", "replace") if isinstance(part, bytes) else part for part in path] != list(leaf.path):
                raise MalformedFooterError("metadata: the column chunk names another column", **place)
        if record["physical_type"] != PHYSICAL_TYPES.index(leaf.physical):
            raise MalformedFooterError("metadata: the column chunk has another type than the schema", **place)
        return record

    def _names(self, path_start: int, leaf: Leaf) -> bool:
        """Whether the path at a position is, byte for byte, the one that is usual for a leaf."""
        return self.data[path_start : path_start + len(leaf.encoded_path)] == leaf.encoded_path

    def column_chunks(self, leaf: Leaf) -> list[np.void | EncryptedFileError | MalformedFooterError]:
        """The records of a column's chunks, one a row group; what `chunk` would raise in place of one that is odd."""
        groups, number = self.row_groups, PHYSICAL_TYPES.index(leaf.physical)
        found: list[np.void | EncryptedFileError | MalformedFooterError] = []
        if (groups["num_columns"] == len(self.leaves)).all():
            records = self.chunks[groups["first_chunk"] + leaf.index]
            usual = (records["meta_start"] >= 0) & (records["physical_type"] == number)
            starts = records["path_start"].tolist()
            if usual.all() and all(start < 0 or self._names(start, leaf) for start in starts):
                return list(records)
        for row_group in range(self.num_row_groups):
            try:
                found.append(self.chunk(row_group, leaf))
            except (EncryptedFileError, MalformedFooterError) as error:
                found.append(error)
        return found

    def require_value_per_row(self, row_group: int) -> None:
        """Raise MalformedFooterError if columns have other than a value a row: which rows these are cannot be said.

        pyarrow would read as many rows as the row group is said to have, and not tell of the others.
        """
        group = self.row_groups[row_group]
        first, count = int(group["first_chunk"]), int(group["num_columns"])
        chunks = self.chunks[first : first + count]
        wrong = (chunks["num_values"] != group["num_rows"]) & (chunks["meta_start"] >= 0)  # but of encrypted ones
        for at in np.flatnonzero(wrong[: len(self.leaves)]).tolist() if wrong.any() else ():
            if not self.leaves[at].repeated:
                problem = f"metadata: {chunks['num_values'][at]} values in {group['num_rows']} rows"
                raise MalformedFooterError(problem, row_group=row_group, column=self.leaves[at].name)

    @cached_property
    def empty_row_groups(self) -> list[bool]:
        """Of each row group whether it has no rows, by all that the footer says of it."""
        usual = self.row_groups["num_rows"] > 0
        if usual.all():
            return [False] * self.num_row_groups
        return [self.empty(row_group) for row_group in range(self.num_row_groups)]

    def statistics(self, record: np.void) -> Statistics:
        """The statistics of a column chunk, given by its record."""
        start = int(record["statistics_start"])
        found = read_struct(self.data, start)[0] if start >= 0 else {}
        null_count = _as_type(found.get(3), int)
        return Statistics(null_count, *(_as_type(found.get(number), bytes) for number in (6, 5, 2, 1)))

    def has_values(self, row_group: int, leaf: Leaf) -> bool | None:
        """Whether a column chunk holds a value that is not null; None where the footer does not say."""
        record = self.chunk(row_group, leaf)
        return self.chunk_has_values(row_group, leaf, record, self.statistics(record))

    def chunk_has_values(self, row_group: int, leaf: Leaf, record: np.void, statistics: Statistics) -> bool | None:
        """The same, where the column chunk's record and statistics are known already."""
        num_values = int(record["num_values"])
        if not leaf.repeated and num_values != self.num_rows_of(row_group):
            return None  # the footer contradicts itself
        null_count = statistics.null_count
        if num_values == 0:
            return False
        if null_count == num_values:
            return None if statistics.bounded else False  # nothing but nulls has neither smallest nor largest value
        return None if null_count is None else True

    def chunk_has_nulls(self, row_group: int, leaf: Leaf, record: np.void, statistics: Statistics) -> bool | None:
        """Whether a column chunk, of no list, holds a null; None where the footer does not say."""
        if leaf.repeated or int(record["num_values"]) != self.num_rows_of(row_group):
            return None
        null_count = statistics.null_count
        return None if null_count is None or null_count < 0 else null_count > 0

    @cached_property
    def filters_apart(self) -> bool:
        """Whether the footer gives place and length of all filters, and none shares a byte with anything else in it."""
        chunks = self.chunks
        there = chunks[(chunks["filter_offset"] != -1) | (chunks["filter_fields"] > 0)]
        odd = (there["filter_length"] <= 0) | (there["filter_fields"] > 2) | (there["filter_offset"] < len(MAGIC))
        if (odd | (there["external"] != 0) | (there["encrypted"] != 0)).any():
            return False
        offsets, lengths = there["filter_offset"], there["filter_length"]
        if (lengths > self.start - offsets).any():
            return False
        data = self.data_ranges()
        starts = np.concatenate([offsets, data[:, 0]])
        ends = np.concatenate([offsets + lengths, data[:, 1]])
        is_filter = np.arange(len(starts)) < len(offsets)
        order = np.argsort(starts, kind="stable")
        reach = np.maximum.accumulate(ends[order])[:-1]
        of_filters = np.maximum.accumulate(np.where(is_filter, ends, 0)[order])[:-1]
        begin = starts[order][1:]
        return bool((begin >= np.where(is_filter[order][1:], reach, of_filters)).all())

    def data_ranges(self, page_sizes: np.ndarray | None = None) -> np.ndarray:
        """Byte ranges of the file that hold pages or page indexes, as an (n, 2) array of [start, end).

        `page_sizes` are the lengths of all column chunks' pages where these are not the chunks' sizes.
        """
        sizes = self.chunks["compressed_size"] if page_sizes is None else page_sizes
        return np.concatenate([_spans(self.first_pages, sizes), self.index_ranges()])

    def index_ranges(self) -> np.ndarray:
        """The same of page indexes alone."""
        names = ("offset_index", "column_index")
        return np.concatenate([_spans(self.chunks[f"{name}_offset"], self.chunks[f"{name}_length"]) for name in names])

    @cached_property
    def first_pages(self) -> np.ndarray:
        """Where the pages of each column chunk begin."""
        data, dictionary = self.chunks["data_page_offset"], self.chunks["dictionary_page_offset"]
        return np.where(dictionary > 0, np.minimum(dictionary, data), data)

    def codec(self, record: np.void) -> int | None:
        """The number of the codec that a column chunk is compressed by, given by its record."""
        return _as_type(read_struct(self.data, int(record["meta_start"]))[0].get(4), int)

    # ------------------------------------------------------------------------------------------------- writing

    def splice(self, filters: Mapping[tuple[int, int], tuple[int, int] | None]) -> bytes:
        """The same footer with other filter locations.

        Parameters
        ----------
        filters : {(row group, leaf index): (offset, length with header) or None to take the filter out}.

        Returns
        -------
        The new footer's bytes, without length and magic. Outside fields 14 and 15 of the named chunks every byte is the
        old one, but for field headers that count from a field which came or went.
        """
        first = self.row_groups["first_chunk"].tolist()
        found = sorted((first[row_group] + column, place or (-1, -1)) for (row_group, column), place in filters.items())
        chunks = self.chunks[[number for number, _ in found]]
        places = np.array([place for _, place in found], dtype=np.int64).reshape(-1, 2)
        return splice_filters(
            self.data,
            np.ascontiguousarray(chunks["meta_start"]),
            np.ascontiguousarray(chunks["meta_end"]),
            np.ascontiguousarray(places[:, 0]),
            np.ascontiguousarray(places[:, 1]),
        )

    def physical_view(self, leaf: Leaf, page_sizes: np.ndarray | None = None) -> bytes:
        """A small Parquet file (no pages, all offsets into this one) that shows one column as its stored values.

        Annotations are left out, so that a reader hands out what is stored: INT32 and not dates, bytes and not
        decimals. INT96, which readers turn into nanoseconds and wrap, is declared as the 12 bytes it is: both are
        plain-encoded alike. `page_sizes` as in `data_ranges`.
        """
        elements = [_make_root()]
        for node in leaf.nodes[:-1]:
            elements.append([(3, I32, _repetition(node)), (4, BINARY, _ANY_NAME), (5, I32, 1)])
        last = leaf.nodes[-1]
        stored: list[tuple[int, int, Any]] = [(1, I32, last[1])]
        if leaf.physical == "INT96":
            stored = [(1, I32, _FIXED), (2, I32, 12)]
        elif leaf.length is not None:
            stored.append((2, I32, leaf.length))
        elements.append([*stored, (3, I32, _repetition(last)), (4, BINARY, _ANY_NAME)])
        groups = [self._physical_row_group(number, leaf, page_sizes) for number in range(self.num_row_groups)]
        return self._small_file([], elements, self.num_rows, groups, [])

    def columns_file(
        self, row_group: int, columns: Sequence[ColumnPages], num_rows: int, arrow_schema: bytes | None
    ) -> bytes:
        """A Parquet file of one row group that holds some pages of columns which stand directly below the root.

        Parameters
        ----------
        columns : the pages, of `num_rows` rows each.
        arrow_schema : what key "ARROW:schema" is to say of these columns; None for nothing.
        """
        place, pages, chunks = len(MAGIC), [], []
        for leaf, dictionary, data, plain in columns:
            size = len(dictionary) + len(data)
            changed = {
                5: num_rows,
                6: size,
                7: size,
                9: place + len(dictionary),
                11: place if len(dictionary) else None,
            }
            meta = self._meta_fields(row_group, leaf, [leaf.nodes[-1][4]], changed, _UNCOMPRESSED if plain else None)
            chunks.append([(2, I64, place), (3, STRUCT, meta)])
            pages += [dictionary, data]
            place += size
        group = [(1, LIST, (STRUCT, chunks)), (2, I64, place - len(MAGIC)), (3, I64, num_rows)]
        pairs = [] if arrow_schema is None else [[(1, BINARY, b"ARROW:schema"), (2, BINARY, arrow_schema)]]
        elements = [_make_root(len(columns)), *(self._encoded_leaves[column.leaf.index] for column in columns)]
        return self._small_file(pages, elements, num_rows, [group], pairs)

    @cached_property
    def _encoded_leaves(self) -> list[bytes]:
        """The schema's element of each leaf, as encoded."""
        data, position = self.data, self._positions[2]
        count, position = data[position] >> 4, position + 1
        if count == 15:  # a longer list says its length behind
            while data[position] > 0x7F:
                position += 1
            position += 1
        encoded = []
        for number in range(len(self.schema)):
            element, end = read_struct(data, position)
            if number and 1 in element:
                encoded.append(bytes(data[position:end]))
            position = end
        return encoded

    def _small_file(
        self, pages: list[bytes | memoryview], elements: list[Any], num_rows: int, groups: list[Any], pairs: list[Any]
    ) -> bytes:
        fields: list[tuple[int, int, Any]] = [
            (1, I32, 2),
            (2, LIST, (STRUCT, elements)),
            (3, I64, num_rows),
            (4, LIST, (STRUCT, groups)),
        ]
        if pairs:
            fields.append((5, LIST, (STRUCT, pairs)))
        if self.created_by is not None:
            fields.append((6, BINARY, self.created_by.encode()))  # readers know some writers' quirks by it
        footer = write_struct(fields)
        return b"".join((MAGIC, *pages, footer, struct.pack("<I", len(footer)), MAGIC))

    def _physical_row_group(
        self, row_group: int, leaf: Leaf, page_sizes: np.ndarray | None
    ) -> list[tuple[int, int, Any]]:
        record = self.chunk(row_group, leaf)
        kind = _FIXED if leaf.physical == "INT96" else PHYSICAL_TYPES.index(leaf.physical)
        size, changed = int(record["compressed_size"]), {1: kind}
        if page_sizes is not None:
            size = changed[7] = int(page_sizes[int(self.row_groups[row_group]["first_chunk"]) + leaf.index])
        meta = self._meta_fields(row_group, leaf, [_ANY_NAME] * len(leaf.nodes), changed)
        chunk = [(2, I64, int(record["data_page_offset"])), (3, STRUCT, meta)]
        return [(1, LIST, (STRUCT, [chunk])), (2, I64, size), (3, I64, self.num_rows_of(row_group))]

    def _meta_fields(
        self,
        row_group: int,
        leaf: Leaf,
        path: list[bytes],
        changed: Mapping[int, int | None],
        codec: int | None = None,
    ) -> list[tuple[int, int, Any]]:
        """The ColumnMetaData of a chunk, as far as a reader needs it, with another path and some numbers changed."""
        if codec is None:
            found = read_struct(self.data, int(self.chunk(row_group, leaf)["meta_start"]))[0]
        else:  # nothing is left to be looked up
            found = {1: PHYSICAL_TYPES.index(leaf.physical), 2: [], 4: codec}
        numbers = {number: _as_type(found.get(number), int) for number in (1, 4, 5, 6, 7, 9, 11)} | dict(changed)
        encodings = [encoding for encoding in _as_type(found.get(2), list) or [] if isinstance(encoding, int)]
        wanted = {1: I32, 2: LIST, 3: LIST, 4: I32, 5: I64, 6: I64, 7: I64, 9: I64, 11: I64}
        meta: list[tuple[int, int, Any]] = []
        for number, type_ in wanted.items():
            if number == 2:
                meta.append((2, LIST, (I32, encodings)))
            elif number == 3:
                meta.append((3, LIST, (BINARY, path)))
            elif numbers[number] is not None:
                meta.append((number, type_, numbers[number]))
            elif number != 11:
                raise MalformedFooterError(
                    f"metadata: the column chunk lacks field {number}", row_group=row_group, column=leaf.name
                )
        return meta


def _spans(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.stack([starts, starts + sizes], axis=1)[(starts > 0) & (sizes > 0)]


def _make_root(num_columns: int = 1) -> list[tuple[int, int, Any]]:
    """The schema's first element, above so many columns."""
    return [(3, I32, _REQUIRED), (4, BINARY, b"schema"), (5, I32, num_columns)]
