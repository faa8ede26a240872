"""Parquet footers derived from another footer: with other filter locations, or showing only one column.

A footer is never re-encoded from a schema of ours: `splice_filter_locations` writes fields 14 and 15 of chosen column
chunks and copies everything else. `make_physical_view` makes a small file without data, for pyarrow.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import MalformedFooterError
from .footer import MAGIC, PHYSICAL_TYPES, REQUIRED, Footer, SchemaLeaf, as_type, read_repetition
from .thrift_compact import BINARY, I32, I64, LIST, STRUCT, read_struct, splice_filters, write_struct
from .writer_rules import Rule

_ANY_NAME = b"x"  # pyarrow decodes the names of columns, and those of the file may not be valid text
_FIXED = PHYSICAL_TYPES.index("FIXED_LEN_BYTE_ARRAY")


def splice_filter_locations(footer: Footer, filters: Mapping[tuple[int, int], tuple[int, int] | None]) -> bytes:
    """Return the bytes of the same footer with other filter locations.

    Parameters
    ----------
    filters : {(row group, leaf index): (offset, length with header) or None to take the filter out}.

    Returns
    -------
    The new footer's bytes, without length and magic. Outside fields 14 and 15 of the named chunks every byte is
    unchanged, except for headers of fields that count from a field which was added or removed.
    """
    first = footer.row_groups["first_chunk"].tolist()
    locations = sorted((first[row_group] + column, span or (-1, -1)) for (row_group, column), span in filters.items())
    chunks = footer.chunks[[number for number, _ in locations]]
    spans = np.array([span for _, span in locations], dtype=np.int64).reshape(-1, 2)
    return splice_filters(
        footer.data,
        np.ascontiguousarray(chunks["meta_start"]),
        np.ascontiguousarray(chunks["meta_end"]),
        np.ascontiguousarray(spans[:, 0]),
        np.ascontiguousarray(spans[:, 1]),
    )


_Field = tuple[int, int, object]  # number, type and value


def make_physical_view(
    footer: Footer, leaf: SchemaLeaf, page_sizes: np.ndarray | None = None, annotation: Sequence[_Field] = ()
) -> bytes:
    """Make a small Parquet file (no pages, all offsets into the original) that shows one column as its stored values.

    Annotations are left out, so that a reader returns what is stored: INT32 instead of dates, bytes instead of
    decimals. INT96, which readers turn into nanoseconds and wrap, is declared as the 12 bytes it is: both are
    plain-encoded alike. `page_sizes` as in `Footer.data_ranges`; `annotation` are fields of the schema element.
    """
    elements: list[list[_Field]] = [[(3, I32, REQUIRED), (4, BINARY, b"schema"), (5, I32, 1)]]
    for node in leaf.nodes[:-1]:
        elements.append([(3, I32, read_repetition(node)), (4, BINARY, _ANY_NAME), (5, I32, 1)])
    last = leaf.nodes[-1]
    stored: list[_Field] = [(1, I32, last[1])]
    if leaf.physical == "INT96":
        stored = [(1, I32, _FIXED), (2, I32, 12)]
    elif leaf.length is not None:
        stored.append((2, I32, leaf.length))
    elements.append([*stored, (3, I32, read_repetition(last)), (4, BINARY, _ANY_NAME), *annotation])
    groups = [_make_physical_row_group(footer, number, leaf, page_sizes) for number in range(footer.num_row_groups)]
    return _make_file(footer, elements, groups)


def _make_file(footer: Footer, elements: list[list[_Field]], groups: list[list[_Field]]) -> bytes:
    fields: list[_Field] = [
        (1, I32, 2),
        (2, LIST, (STRUCT, elements)),
        (3, I64, footer.num_rows),
        (4, LIST, (STRUCT, groups)),
    ]
    if footer.created_by is not None:
        fields.append((6, BINARY, footer.created_by.encode()))  # readers recognize the quirks of some writers by it
    encoded = write_struct(fields)
    return b"".join((MAGIC, encoded, struct.pack("<I", len(encoded)), MAGIC))


def _make_physical_row_group(
    footer: Footer, row_group: int, leaf: SchemaLeaf, page_sizes: np.ndarray | None
) -> list[_Field]:
    record = footer.chunk(row_group, leaf)
    kind = _FIXED if leaf.physical == "INT96" else PHYSICAL_TYPES.index(leaf.physical)
    size, changed = int(record["compressed_size"]), {1: kind}
    if page_sizes is not None:
        size = changed[7] = int(page_sizes[int(footer.row_groups[row_group]["first_chunk"]) + leaf.index])
    meta = _make_column_metadata(footer, row_group, leaf, [_ANY_NAME] * len(leaf.nodes), changed)
    chunk: list[_Field] = [(2, I64, int(record["data_page_offset"])), (3, STRUCT, meta)]
    return [(1, LIST, (STRUCT, [chunk])), (2, I64, size), (3, I64, footer.num_rows_of(row_group))]


def _make_column_metadata(
    footer: Footer, row_group: int, leaf: SchemaLeaf, path: list[bytes], changed: Mapping[int, int]
) -> list[_Field]:
    """Make the ColumnMetaData of a chunk, as far as a reader needs it, with another path and some numbers changed."""
    fields = read_struct(footer.data, int(footer.chunk(row_group, leaf)["meta_start"]))[0]
    numbers = {number: as_type(fields.get(number), int) for number in (1, 4, 5, 6, 7, 9, 11)} | dict(changed)
    encodings = [encoding for encoding in as_type(fields.get(2), list) or [] if isinstance(encoding, int)]
    types = {1: I32, 2: LIST, 3: LIST, 4: I32, 5: I64, 6: I64, 7: I64, 9: I64, 11: I64}
    meta: list[_Field] = []
    for number, type_ in types.items():
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


def find_later_groups(footer: Footer) -> list[int]:
    """Return the numbers of the schema's groups that have a logical type of a later format."""
    return [number for number in footer.later_types if 1 not in footer.schema[number]]


def drop_later_groups(footer: Footer) -> bytes:
    """Return a footer's bytes, for readers, in which groups with a logical type of a later format are plain ones.

    So the format wants them to be read; pyarrow does not open such files.
    """
    groups = find_later_groups(footer)
    if not groups:
        return footer.data
    elements, end = footer.encoded_schema_elements
    begin = end - sum(map(len, elements))
    for number in groups:
        fields = {key: value for key, value in sorted(footer.schema[number].items()) if key in _GROUP_FIELDS}
        elements[number] = write_struct([(key, _GROUP_FIELDS[key], value) for key, value in fields.items()])
    return b"".join((footer.data[:begin], *elements, footer.data[end:]))


_GROUP_FIELDS = {3: I32, 4: BINARY, 5: I32, 6: I32, 9: I32}
_ARROW_SCHEMA = b"ARROW:schema"
_NOT_ARROW_SCHEMA = b"arrow.schema"  # as long, so that no length changes
_NAME_FIELD = 4


class RenamedFooter(Footer):
    """A footer with other names in its schema; everything else is the original's.

    Column chunks go on naming their columns as the original schema does, which is what they are checked against. The
    Arrow schema that a writer has stored, whose names would be others, is not shown.

    Parameters
    ----------
    original : the footer.
    names : a name for each element of its schema, the root included; in UTF-8.

    Raises
    ------
    MalformedFooterError
        An element's name cannot be located in its bytes.
    """

    def __init__(self, original: Footer, names: Sequence[bytes]):
        self._original = original
        super().__init__(_rename(original, names), original.start)

    @property
    def stored_leaves(self) -> list[SchemaLeaf]:
        return self._original.leaves

    def stored_leaf(self, leaf: SchemaLeaf) -> SchemaLeaf:
        return self._original.leaves[leaf.index]

    def rules_of(self, leaf: SchemaLeaf) -> tuple[Rule, ...]:
        return self._original.rules_of(self.stored_leaf(leaf))


def _rename(footer: Footer, names: Sequence[bytes]) -> bytes:
    """Return a footer's bytes with other names in the schema."""
    elements, end = footer.encoded_schema_elements
    renamed = [_rename_element(element, name) for element, name in zip(elements, names, strict=True)]
    begin = end - sum(map(len, elements))
    # Only the key of the writer's own schema is like this: it is not looked for in statistics or names.
    rest = footer.data[end:]
    position = footer.metadata_position
    if position is not None and position >= end:
        position -= end
        rest = rest[:position] + rest[position:].replace(_ARROW_SCHEMA, _NOT_ARROW_SCHEMA, 1)
    return b"".join((footer.data[:begin], *renamed, rest))


def _rename_element(element: bytes, name: bytes) -> bytes:
    """Return an encoded schema element with another name; fields before the name are numbers."""
    position, number = 0, 0
    while element[position]:
        header = element[position]
        number += header >> 4
        kind = header & 15
        position += 1
        if not header >> 4 or number > _NAME_FIELD:
            break
        value = position
        while element[position] & 0x80:
            position += 1
        position += 1
        if number == _NAME_FIELD and kind == BINARY:
            end = position + len(read_struct(element)[0][_NAME_FIELD])
            encoded = write_struct([(1, BINARY, name)])[1:-1]  # without the field's header and the end of the struct
            return b"".join((element[:value], encoded, element[end:]))
        if kind != I32:
            break
    raise MalformedFooterError("metadata: a schema element has its fields in an unusual order, and cannot be renamed")
