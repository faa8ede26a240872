"""A Parquet footer: its schema, row groups and column chunks, decoded lazily from its bytes.

`index_footer` records the positions of the parts, and each part is decoded when it is first used. `footer_rewrite`
makes new footers out of the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypedDict, TypeVar

import numpy as np

from ..errors import EncryptedFileError, ErrorContext, MalformedFooterError, NotParquetError, TruncatedFileError
from .thrift_compact import (
    BINARY,
    LIST,
    STRUCT,
    index_footer,
    index_footers,
    read_struct,
    read_value,
    split_structs,
    write_struct,
)
from .writer_rules import LEGACY, Doubt, Rule, WriterRules, combine_doubts, describe, find_rules

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
ORC_MAGIC = b"ORC"  # ORC files end with it and one more byte
TAIL_BYTES = 8  # footer length and magic

PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
REQUIRED, _OPTIONAL, REPEATED = 0, 1, 2
_LAST_LOGICAL_TYPE = 18  # GEOGRAPHY
_MAX_SCHEMAS = 64  # cached decoded schemas: the files of a lake have few different ones
_MAX_ENUM = 2**31 - 1  # Thrift stores enumerations as 32-bit integers
_UNKNOWN = 11  # of the union LogicalType
_MAX_DEPTH = 256  # nesting of columns; more than any reader accepts
_REQUIRED_FIELDS = {2: "schema", 3: "num_rows", 4: "row groups"}
_ENCRYPTION = [8, 9]  # fields of a footer that is signed, or whose file has encrypted columns
_FIXED = PHYSICAL_TYPES.index("FIXED_LEN_BYTE_ARRAY")
_ARROW_SCHEMA = b"ARROW:schema"
_NO_STRUCTS = bytes([STRUCT])  # an empty list of them


def find_footer(tail: bytes, file_size: int) -> tuple[int, int]:
    """Return (start, length) of a file's footer, given the last bytes of the file.

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


T = TypeVar("T")


def as_type(value: object, kind: type[T]) -> T | None:
    """Return a field's value, or None where it has another type: readers ignore such fields."""
    return value if type(value) is kind else None


def read_repetition(element: Mapping[int, object]) -> int:
    return as_type(element.get(3), int) or REQUIRED


@dataclass(frozen=True, eq=False)
class SchemaLeaf:
    """A column that holds values: a leaf of the schema.

    Attributes
    ----------
    index : its number in schema order, which is also the order of column chunks in a row group.
    path : its names from below the root down; `name` is the same path, dotted.
    physical : name of the physical type; `length` its width in bytes when FIXED_LEN_BYTE_ARRAY.
    converted, logical, scale, precision : raw annotations (ConvertedType number, LogicalType {member: parameters}).
    repeated : whether the path contains a list, a map or a bare repeated field, so that a row may hold many values.
    """

    index: int
    path: tuple[str, ...]
    physical: str
    length: int | None
    converted: int | None
    logical: Mapping[int, object] | None
    scale: int | None
    precision: int | None
    repeated: bool
    nodes: tuple[Mapping[int, object], ...]

    @cached_property
    def name(self) -> str:
        return ".".join(self.path)

    @cached_property
    def encoded_path(self) -> bytes:
        """The path as column chunks store it: a list of names."""
        return write_struct([(1, LIST, (BINARY, [node[4] for node in self.nodes]))])[1:-1]

    @property
    def shown_as_null(self) -> bool:
        """True for a column annotated UNKNOWN: readers show nothing but nulls, whatever is stored."""
        return self.logical is not None and set(self.logical) == {_UNKNOWN}

    @cached_property
    def known_repetition(self) -> bool:
        """Whether it, and all that it is in, are required, optional or repeated: later formats may have other ways."""
        return all(read_repetition(node) in (REQUIRED, _OPTIONAL, REPEATED) for node in self.nodes)

    @cached_property
    def required(self) -> bool:
        """True for a column directly below the root that its schema declares non-null: its pages have no levels."""
        return len(self.nodes) == 1 and read_repetition(self.nodes[0]) == REQUIRED

    @cached_property
    def nullable(self) -> bool:
        """True unless its schema declares it, and all that it is in, non-null."""
        return any(read_repetition(node) != REQUIRED for node in self.nodes)


@dataclass(frozen=True)
class Statistics:
    """Statistics of a column chunk, or of a page, as stored.

    Attributes
    ----------
    null_count, min_value, max_value, legacy_min, legacy_max, nan_count : None where absent; values are plain-encoded.
    max_is_exact : whether `max_value` is declared to be a value, not another upper bound; None where absent.
    """

    null_count: int | None
    min_value: bytes | None
    max_value: bytes | None
    legacy_min: bytes | None
    legacy_max: bytes | None
    max_is_exact: bool | None = None
    nan_count: int | None = None


NO_STATISTICS = Statistics(None, None, None, None, None)


@lru_cache(maxsize=_MAX_SCHEMAS)
def _parse_schema(encoded: bytes) -> list[dict[int, object]]:
    elements = read_value(encoded, 0, LIST)
    if not elements or not all(isinstance(element, dict) for element in elements):
        raise MalformedFooterError("metadata: the schema is not a list of structs")
    return list(elements)


@lru_cache(maxsize=_MAX_SCHEMAS)
def _find_later_types(encoded: bytes) -> tuple[int, ...]:
    annotations = [as_type(element.get(10), dict) or {} for element in _parse_schema(encoded)]
    return tuple(i for i, one in enumerate(annotations) if any(not 1 <= member <= _LAST_LOGICAL_TYPE for member in one))


@dataclass
class _OpenNode:
    """A group of the schema some of whose children are still to come."""

    num_missing: int
    path: tuple[str, ...] = ()
    nodes: tuple[Mapping[int, object], ...] = ()
    repeated: bool = False


@lru_cache(maxsize=_MAX_SCHEMAS)
def _parse_leaves(encoded: bytes) -> list[SchemaLeaf]:
    leaves: list[SchemaLeaf] = []
    open_nodes: list[_OpenNode] = []  # that lack children; not recursive: the file sets the depth
    for position, element in enumerate(_parse_schema(encoded)):
        num_children = element.get(5, 0)
        name = element.get(4)
        if not isinstance(name, bytes) or not isinstance(num_children, int):
            raise MalformedFooterError(f"metadata: schema element {position} lacks its name")
        if len(open_nodes) > _MAX_DEPTH:
            raise MalformedFooterError(f"metadata: columns are nested more than {_MAX_DEPTH} deep")
        if position == 0:
            open_nodes.append(_OpenNode(num_children))
            continue
        while open_nodes and open_nodes[-1].num_missing == 0:
            open_nodes.pop()
        if not open_nodes:
            raise MalformedFooterError("metadata: the schema has more elements than its groups announce")
        parent = open_nodes[-1]
        parent.num_missing -= 1
        path = (*parent.path, str(name, "utf-8", "replace"))
        nodes = (*parent.nodes, element)
        repeated = parent.repeated or read_repetition(element) == REPEATED
        if 1 not in element:
            open_nodes.append(_OpenNode(num_children, path, nodes, repeated))
            continue
        kind = element[1]
        if not isinstance(kind, int) or not 0 <= kind < len(PHYSICAL_TYPES):
            raise MalformedFooterError(f"metadata: physical type {kind} does not exist", column=".".join(path))
        leaves.append(
            SchemaLeaf(
                index=len(leaves),
                path=path,
                physical=PHYSICAL_TYPES[kind],
                length=as_type(element.get(2), int) if kind == _FIXED else None,
                converted=as_type(element.get(6), int),
                logical=as_type(element.get(10), dict),
                scale=as_type(element.get(7), int),
                precision=as_type(element.get(8), int),
                repeated=repeated,
                nodes=nodes,
            )
        )
    if any(node.num_missing for node in open_nodes):
        raise MalformedFooterError("metadata: the schema has fewer elements than its groups announce")
    return leaves


@lru_cache(maxsize=_MAX_SCHEMAS)
def _parse_orders(encoded: bytes) -> tuple[int, ...]:
    orders = read_value(encoded, 0, LIST)
    return tuple(next(iter(order)) if isinstance(order, dict) and len(order) == 1 else -1 for order in orders)


class _SchemaFields(TypedDict):
    """The attributes of a footer that its schema and the orders of its columns decide."""

    encoded_schema: bytes
    leaves: list[SchemaLeaf]
    column_orders: tuple[int, ...]


def _decode_schema(encoded: bytes, orders: bytes) -> _SchemaFields | None:
    """Decode the schema and the orders of columns; None if they are bad."""
    try:
        leaves, ordered = _parse_leaves(encoded), _parse_orders(orders) if orders else ()
    except MalformedFooterError:
        return None
    return {"encoded_schema": encoded, "leaves": leaves, "column_orders": ordered}


class Footer:
    """The footer of one file.

    Parameters
    ----------
    data : the footer's bytes, without length and magic.
    start : its offset in the file.

    Raises
    ------
    MalformedFooterError
    """

    _index: np.void

    def __init__(self, data: bytes, start: int):
        self.data = data
        self.start = start
        self._positions, self.row_groups, self.chunks = index_footer(data)
        for number, what in _REQUIRED_FIELDS.items():
            if number not in self._positions:
                raise MalformedFooterError(f"metadata: the footer has no {what}")
        if (self.row_groups["num_rows"] < 0).any():
            row_group = int(np.argmax(self.row_groups["num_rows"] < 0))
            raise MalformedFooterError("metadata: it does not say how many rows it has", row_group=row_group)

    @classmethod
    def parse_many(cls, footers: list[bytes], starts: Sequence[int]) -> list[Footer | None]:
        """Parse many footers at once, largely without the interpreter.

        Returns
        -------
        A footer for each; None for one that is malformed or unusual, which its own constructor explains or parses.
        """
        files, schemas, row_groups, first_row_group, chunks, first_chunk, apart = index_footers(
            footers, np.array(starts, np.int64)
        )
        row_groups = row_groups.copy()  # the bytes that they were read into cannot be written to
        row_groups["first_chunk"] -= np.repeat(first_chunk[:-1], np.diff(first_row_group))
        positions, ends = files["positions"], files["ends"]
        negative = np.concatenate([[0], np.cumsum(row_groups["num_rows"] < 0)])[first_row_group]
        usual = (files["is_usual"] != 0) & (positions[:, list(_REQUIRED_FIELDS)] >= 0).all(axis=1)
        usual &= np.diff(negative) == 0
        encrypted: list[bool] = np.any(positions[:, _ENCRYPTION] >= 0, axis=1).tolist()
        filters = np.concatenate([[0], np.cumsum(chunks["filter_offset"] != -1)])
        bounds = np.stack([first_row_group, first_chunk, filters[first_chunk]], axis=1).tolist()
        described = np.stack([positions[:, 5], ends[:, 5], positions[:, 6], ends[:, 6]], axis=1).tolist()
        shared: dict[int, _SchemaFields | None] = {}
        keys: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}  # one object for all that are equal
        rules: dict[bytes, WriterRules] = {}
        parsed: list[Footer | None] = []
        for i, (is_usual, schema, is_apart) in enumerate(
            zip(usual.tolist(), schemas.tolist(), apart.tolist(), strict=True)
        ):
            if is_usual and schema not in shared:
                encoded = footers[i][positions[i, 2] : ends[i, 2]]
                shared[schema] = _decode_schema(encoded, footers[i][positions[i, 7] : ends[i, 7]])
            fields = shared[schema] if is_usual else None
            if fields is None:
                parsed.append(None)
                continue
            (group, chunk, before), (group_end, chunk_end, after) = bounds[i], bounds[i + 1]
            metadata, metadata_end, writer, writer_end = described[i]
            key = (
                fields["encoded_schema"],
                footers[i][metadata:metadata_end] if metadata >= 0 else b"",
                footers[i][writer:writer_end] if writer >= 0 else b"",
            )
            if key[2] not in rules:
                created_by = str(read_value(key[2], 0, BINARY), "utf-8", "replace") if key[2] else None
                rules[key[2]] = find_rules(created_by)
            footer = cls.__new__(cls)
            footer.__dict__.update(
                fields,
                schema_key=keys.setdefault(key, key),
                data=footers[i],
                start=starts[i],
                row_groups=row_groups[group:group_end],
                chunks=chunks[chunk:chunk_end],
                encrypted=encrypted[i],
                filters_apart=is_apart,
                num_filters=after - before,
                writer_rules=rules[key[2]],
                _index=files[i],
            )
            parsed.append(footer)
        return parsed

    @cached_property
    def _positions(self) -> dict[object, int]:
        """The positions of the footer's fields, as `index_footer` gives them, where `parse_many` read them."""
        positions = self._index["positions"].tolist()
        known: dict[object, int] = {number: position for number, position in enumerate(positions) if position >= 0}
        return known | {"num_rows": int(self._index["num_rows"]), "end": int(self._index["end"])}

    @property
    def num_row_groups(self) -> int:
        return len(self.row_groups)

    @cached_property
    def num_filters(self) -> int:
        """Number of column chunks that the footer gives the offset of a filter for."""
        return int((self.chunks["filter_offset"] != -1).sum())

    @property
    def num_rows(self) -> int:
        return self._positions.get("num_rows", 0)

    @cached_property
    def encrypted(self) -> bool:
        """True for a plaintext footer that is signed, or whose file has encrypted columns."""
        return any(number in self._positions for number in _ENCRYPTION)

    @cached_property
    def created_by(self) -> str | None:
        if 6 not in self._positions:
            return None
        value = read_value(self.data, self._positions[6], BINARY)
        return str(value, "utf-8", "replace")

    @cached_property
    def writer_rules(self) -> WriterRules:
        """What is known of the writer's faults."""
        return find_rules(self.created_by)

    @cached_property
    def _rules(self) -> dict[int, tuple[Rule, ...]]:
        return {}

    def rules_of(self, leaf: SchemaLeaf) -> tuple[Rule, ...]:
        """Return the rules about the writer that hold for a column; () if all that it wrote is believed."""
        if not self.writer_rules.rules:
            return ()
        rules = self._rules.get(leaf.index)
        if rules is None:
            stored_schema = self.key_value_metadata.get(_ARROW_SCHEMA)
            rules = self._rules[leaf.index] = self.writer_rules.find(leaf, stored_schema)
        return rules

    def doubts_of(self, leaf: SchemaLeaf) -> Doubt:
        """Return what of a column is not believed in every column chunk."""
        return combine_doubts(tuple(rule for rule in self.rules_of(leaf) if rule.columns != LEGACY))

    def describe_doubts(self, leaf: SchemaLeaf) -> str | None:
        """Return what of a column is not used as evidence because of its writer; None if all is."""
        rules = self.rules_of(leaf)
        return describe(rules, self.writer_rules.created_by) if rules else None

    @cached_property
    def denies_compression(self) -> bool:
        """True where pages of version 2 are compressed and may say that they are not, because of their writer."""
        return bool(combine_doubts(self.writer_rules.rules) & Doubt.COMPRESSION_FLAGS)

    @cached_property
    def key_value_metadata(self) -> dict[bytes, bytes]:
        if 5 not in self._positions:
            return {}
        pairs = read_value(self.data, self._positions[5], LIST)
        return {
            pair[1]: pair.get(2, b"") for pair in pairs if isinstance(pair, dict) and isinstance(pair.get(1), bytes)
        }

    @cached_property
    def schema_key(self) -> tuple[bytes, ...]:
        """The bytes that an Arrow schema is made of: the schema, key-value metadata, and the writer's name."""
        others = (self._encoded(number) if number in self._positions else b"" for number in (5, 6))
        return self.encoded_schema, *others

    @cached_property
    def column_orders(self) -> tuple[int, ...]:
        """The declared orders of the leaves' min_value and max_value: members of the union ColumnOrder, -1 for none."""
        return _parse_orders(self._encoded(7)) if 7 in self._positions else ()

    def order_of(self, leaf: SchemaLeaf) -> int:
        """Return the declared order of a leaf (see `column_orders`), 0 where none is declared."""
        return self.column_orders[leaf.index] if leaf.index < len(self.column_orders) else 0

    # ------------------------------------------------------------------------------------------------- schema

    @cached_property
    def schema(self) -> list[dict[int, object]]:
        return _parse_schema(self.encoded_schema)

    @cached_property
    def leaves(self) -> list[SchemaLeaf]:
        return _parse_leaves(self.encoded_schema)

    @property
    def later_types(self) -> tuple[int, ...]:
        """The numbers of the schema's elements that have a logical type of a later format, such as FILE.

        Their values may refer to bytes of the file of which the footer tells nothing, as FILE's did in drafts.
        """
        return _find_later_types(self.encoded_schema)

    @cached_property
    def encoded_schema(self) -> bytes:
        """The schema's bytes, perhaps with some that follow: files with equal bytes have the same schema."""
        return self._encoded(2)

    def _encoded(self, number: int) -> bytes:
        """Return the bytes of a field of the footer, perhaps with some that follow: equal bytes mean equal values."""
        start = self._positions[number]
        ends = [end for other, end in self._positions.items() if other != "num_rows" and end > start]
        return bytes(self.data[start : min(ends)])

    @property
    def encoded_schema_elements(self) -> tuple[list[bytes], int]:
        """The encoded elements of the schema, and the position behind the last one."""
        return split_structs(self.data, self._positions[2])

    @property
    def data_of_schema(self) -> bytes:
        """The footer's bytes, without its row groups where their end is known: it has the same schema."""
        index = vars(self).get("_index")
        if index is None or index["positions"][4] < 0:
            return self.data
        return b"".join((self.data[: index["positions"][4]], _NO_STRUCTS, self.data[index["ends"][4] :]))

    @property
    def metadata_position(self) -> int | None:
        """Position of the key-value metadata in `data`; None if there is none."""
        return self._positions.get(5)

    @property
    def encrypted_leaves(self) -> list[SchemaLeaf]:
        """The columns that are encrypted in any row group."""
        columns = set(self.chunks["column"][self.chunks["encrypted"] != 0].tolist())
        return [leaf for leaf in self.leaves if leaf.index in columns]

    # ------------------------------------------------------------------------------------------------- chunks

    def num_rows_of(self, row_group: int) -> int:
        return int(self.row_groups["num_rows"][row_group])

    def empty(self, row_group: int) -> bool:
        """Return whether a row group has no rows, and the rest of the footer agrees."""
        group = self.row_groups[row_group]
        first, count = int(group["first_chunk"]), int(group["num_columns"])
        no_values = not self.chunks["num_values"][first : first + count].any()
        return bool(group["num_rows"] == 0 and count == len(self.leaves) and no_values)

    def chunk(self, row_group: int, leaf: SchemaLeaf) -> np.void:
        """Return the record (CHUNK_DTYPE) of a column chunk.

        Raises
        ------
        MalformedFooterError
            The chunk is missing, has no metadata, or its path or type is that of another column.
        EncryptedFileError
            Its metadata is encrypted.
        """
        context: ErrorContext = {"row_group": row_group, "column": leaf.name}
        group = self.row_groups[row_group]
        if group["num_columns"] != len(self.leaves):
            raise MalformedFooterError(
                f"metadata: {group['num_columns']} column chunks for {len(self.leaves)} columns", **context
            )
        record = self.chunks[int(group["first_chunk"]) + leaf.index]
        if record["meta_start"] < 0:
            if record["encrypted"]:
                raise EncryptedFileError("the column is encrypted", **context)
            raise MalformedFooterError("metadata: missing", **context)
        if record["path_start"] >= 0 and not self._has_path(int(record["path_start"]), leaf):
            path = read_value(self.data, int(record["path_start"]), LIST)
            stored = list(self.stored_leaf(leaf).path)
            if [str(part, "utf-8", "replace") if isinstance(part, bytes) else part for part in path] != stored:
                raise MalformedFooterError("metadata: the column chunk names another column", **context)
        if record["physical_type"] != PHYSICAL_TYPES.index(leaf.physical):
            raise MalformedFooterError("metadata: the column chunk has another type than the schema", **context)
        return record

    def _has_path(self, path_start: int, leaf: SchemaLeaf) -> bool:
        """Return whether the encoded path at a position equals the usual encoding of a leaf's path."""
        encoded = self.stored_leaf(leaf).encoded_path
        return self.data[path_start : path_start + len(encoded)] == encoded

    @property
    def stored_leaves(self) -> list[SchemaLeaf]:
        """The leaves as the file itself names them."""
        return self.leaves

    def stored_leaf(self, leaf: SchemaLeaf) -> SchemaLeaf:
        """Return a leaf as the file itself names it."""
        return leaf

    def has_value_per_row(self, row_group: int, leaf: SchemaLeaf, record: np.void) -> bool:
        """Return whether a column chunk may have one value for each row, by the footer; true of any chunk with lists.

        Where it is not, the footer is wrong about the values, or about the rows: only the pages tell.
        """
        return leaf.repeated or int(record["num_values"]) == self.num_rows_of(row_group)

    @cached_property
    def empty_row_groups(self) -> list[bool]:
        """For each row group, whether it has no rows, and the rest of the footer agrees."""
        if (self.row_groups["num_rows"] > 0).all():
            return [False] * self.num_row_groups
        return [self.empty(row_group) for row_group in range(self.num_row_groups)]

    def statistics(self, record: np.void) -> Statistics:
        """Return the statistics of a column chunk, given its record, as far as they are believed.

        They are not if they contradict the number of values, or as far as their writer is known to get them wrong.
        `file.statistics` does the same for many footers at once.
        """
        start = int(record["statistics_start"])
        if start < 0:
            return NO_STATISTICS
        fields = read_struct(self.data, start)[0]
        null_count = as_type(fields.get(3), int)
        low, high, legacy_low, legacy_high = (as_type(fields.get(number), bytes) for number in (6, 5, 2, 1))
        if null_count is not None:
            leaf, num_values = self.leaves[int(record["column"])], int(record["num_values"])
            is_bounded = any(bound is not None for bound in (low, high, legacy_low, legacy_high))
            if not 0 <= null_count <= num_values or (null_count and not leaf.nullable):
                return NO_STATISTICS
            if null_count == num_values and is_bounded:  # of a chunk of nothing but nulls there are no bounds
                return NO_STATISTICS
        is_exact, nan_count = as_type(fields.get(7), bool), as_type(fields.get(9), int)
        statistics = Statistics(null_count, low, high, legacy_low, legacy_high, is_exact, nan_count)
        return self._believe(record, statistics) if self.writer_rules.rules else statistics

    def _believe(self, record: np.void, statistics: Statistics) -> Statistics:
        """Return statistics without what the writer is known to get wrong."""
        leaf = self.leaves[int(record["column"])]
        doubts = self.doubts_of(leaf)
        is_legacy = None in (statistics.min_value, statistics.max_value) and not self.order_of(leaf)
        if is_legacy and any(rule.columns == LEGACY for rule in self.rules_of(leaf)):
            return NO_STATISTICS
        if doubts & Doubt.BOUNDS:
            statistics = Statistics(statistics.null_count, None, None, None, None)
        null_count = statistics.null_count
        if (doubts & Doubt.FEW_NULLS and null_count != record["num_values"]) or (
            doubts & Doubt.MANY_NULLS and null_count != 0
        ):
            statistics = replace(statistics, null_count=None)
        return statistics

    def has_values(self, row_group: int, leaf: SchemaLeaf) -> bool | None:
        """Return whether a column chunk holds a value that is not null; None where the footer does not say."""
        record = self.chunk(row_group, leaf)
        return self.chunk_has_values(row_group, leaf, record, self.statistics(record))

    def chunk_has_values(
        self, row_group: int, leaf: SchemaLeaf, record: np.void, statistics: Statistics
    ) -> bool | None:
        """Return what `has_values` does, given the column chunk's record and statistics."""
        num_values = int(record["num_values"])
        num_rows = self.num_rows_of(row_group)
        if num_values < num_rows if leaf.repeated else num_values != num_rows:
            return None  # the footer contradicts itself
        null_count = statistics.null_count
        if num_values == 0:
            return False
        return None if null_count is None else null_count != num_values

    def chunk_has_nulls(self, row_group: int, leaf: SchemaLeaf, record: np.void, statistics: Statistics) -> bool | None:
        """Return whether readers show a null in a column chunk; None for lists and where the footer does not say."""
        if leaf.repeated or leaf.shown_as_null or int(record["num_values"]) != self.num_rows_of(row_group):
            return None
        return None if statistics.null_count is None else statistics.null_count > 0

    @cached_property
    def filters_apart(self) -> bool:
        """True when the footer gives offset and length of all filters, and none overlaps anything else it describes."""
        chunks = self.chunks
        filtered = chunks[(chunks["filter_offset"] != -1) | (chunks["filter_fields"] > 0)]
        odd = (filtered["filter_length"] <= 0) | (filtered["filter_fields"] > 2)
        odd |= filtered["filter_offset"] < len(MAGIC)
        if (odd | (filtered["external"] != 0) | (filtered["encrypted"] != 0)).any():
            return False
        offsets, lengths = filtered["filter_offset"], filtered["filter_length"]
        if (lengths > self.start - offsets).any():
            return False
        data = self.data_ranges()
        starts = np.concatenate([offsets, data[:, 0]])
        ends = np.concatenate([offsets + lengths, data[:, 1]])
        is_filter = np.arange(len(starts)) < len(offsets)
        order = np.argsort(starts, kind="stable")
        reach = np.maximum.accumulate(ends[order])[:-1]
        filter_reach = np.maximum.accumulate(np.where(is_filter, ends, 0)[order])[:-1]
        begin = starts[order][1:]
        return bool((begin >= np.where(is_filter[order][1:], reach, filter_reach)).all())

    def data_ranges(self, page_sizes: np.ndarray | None = None) -> np.ndarray:
        """Return the byte ranges of the file that hold pages or page indexes, as an (n, 2) array of [start, end).

        `page_sizes` are the lengths of all column chunks' pages, where they differ from the chunks' sizes.
        """
        sizes = self.chunks["compressed_size"] if page_sizes is None else page_sizes
        return np.concatenate([_spans(self.first_pages, sizes), self.index_ranges()])

    def index_ranges(self) -> np.ndarray:
        """Return the byte ranges of the file that hold page indexes, as an (n, 2) array of [start, end)."""
        names = ("offset_index", "column_index")
        return np.concatenate([_spans(self.chunks[f"{name}_offset"], self.chunks[f"{name}_length"]) for name in names])

    @cached_property
    def first_pages(self) -> np.ndarray:
        """The offset of the first page of each column chunk."""
        return find_first_pages(self.chunks)

    def first_page(self, row_group: int, leaf: SchemaLeaf) -> int:
        """Return the offset of the first page of a column chunk that `chunk` has a record of."""
        return int(self.first_pages[int(self.row_groups[row_group]["first_chunk"]) + leaf.index])

    def encodings(self, record: np.void) -> list[int]:
        """Return the numbers of the encodings that a column chunk declares, given its record."""
        declared = read_struct(self.data, int(record["meta_start"]))[0].get(2)
        return [number for number in declared if type(number) is int] if isinstance(declared, list) else []

    def codec(self, record: np.void) -> int | None:
        """Return the number of the codec of a column chunk, given its record; None for one that no codec can have."""
        codec = int(record["codec"])
        return codec if 0 <= codec <= _MAX_ENUM else None


def find_first_pages(records: np.ndarray | np.void) -> np.ndarray:
    """Return where column chunks begin, given their records: with the dictionary page that is told of, if any."""
    data, dictionary = records["data_page_offset"], records["dictionary_page_offset"]
    return np.where(dictionary > 0, np.minimum(dictionary, data), data)


def concatenate_records(records: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate records of int64 numbers; NumPy itself compares the names of their fields again and again."""
    if len(records) == 1:
        return records[0]
    dtype = records[0].dtype
    width = len(dtype.names or ())
    numbers = np.concatenate([one.view(np.int64).reshape(-1, width) for one in records])
    return numbers.view(dtype).reshape(-1)


def _spans(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.stack([starts, starts + sizes], axis=1)[(starts > 0) & (sizes > 0)]
