"""How tables and files show Variants, which are values of any type: in structs of their metadata and value."""

from __future__ import annotations

import pyarrow as pa

_METADATA, _VALUE, _TYPED_VALUE = "metadata", "value", "typed_value"


def is_variant(arrow_type: pa.DataType) -> bool:
    """Return whether a column of this type, in the schema of a table, is one of Variants.

    These have two fields, of which neither may be null; a struct that users have made may have the same names, but
    its fields may be null then, as is the default of all engines.
    """
    return (
        pa.types.is_struct(arrow_type)
        and sorted(field.name for field in arrow_type) == [_METADATA, _VALUE]
        and all(not field.nullable and _is_binary(field.type) for field in arrow_type)
    )


def is_shredded(arrow_type: pa.DataType) -> bool:
    """Return whether a column of this type, in a file, is one of Variants that have parts in columns of their own.

    Not all writers annotate the group as one of Variants.
    """
    if not pa.types.is_struct(arrow_type) or arrow_type.get_field_index(_TYPED_VALUE) < 0:
        return False
    metadata = arrow_type.get_field_index(_METADATA)
    return metadata >= 0 and _is_binary(arrow_type.field(metadata).type)


def _is_binary(arrow_type: pa.DataType) -> bool:
    return pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type)
