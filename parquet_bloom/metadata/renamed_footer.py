"""A Parquet footer that shows its columns under other names: those of the table that the file belongs to."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import MalformedFooterError
from .footer import Footer, Leaf
from .thrift_compact import BINARY, I32, read_struct, write_struct
from .writer_rules import Rule

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
    def stored_leaves(self) -> list[Leaf]:
        return self._original.leaves

    def stored_leaf(self, leaf: Leaf) -> Leaf:
        return self._original.leaves[leaf.index]

    def rules_of(self, leaf: Leaf) -> tuple[Rule, ...]:
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
