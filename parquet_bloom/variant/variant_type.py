"""How tables and files show Variants, which are values of any type: in structs of their metadata and value."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

METADATA, VALUE, TYPED_VALUE = "metadata", "value", "typed_value"
"""The columns of a Variant's group."""


def is_variant(arrow_type: pa.DataType) -> bool:
    """Return whether a column of this type, in the schema of a table, is one of Variants.

    These have two fields, of which neither may be null; a struct that users have made may have the same names, but
    its fields may be null then, as is the default of all engines.
    """
    return (
        pa.types.is_struct(arrow_type)
        and sorted(field.name for field in arrow_type) == [METADATA, VALUE]
        and all(not field.nullable and _is_binary(field.type) for field in arrow_type)
    )


def find_variant(fields: Iterable[pa.Field], name: str) -> str | None:
    """Return the column of Variants, or field of structs, that a dotted name leads to or into; None if to none.

    Parameters
    ----------
    fields : of a table's schema.
    """
    for field in fields:
        if name == field.name or name.startswith(f"{field.name}."):
            if is_variant(field.type):
                return field.name
            if pa.types.is_struct(field.type):
                found = find_variant(field.type, name[len(field.name) + 1 :])
                if found is not None:
                    return f"{field.name}.{found}"
    return None


def loses_shredded(stored: pa.DataType, shown: pa.DataType) -> bool:
    """Return whether a column has Variants with parts in columns of their own, which another type of it lacks.

    Parameters
    ----------
    stored : of the column in a file. Not all writers annotate the group as one of Variants.
    shown : of the same column in a result.
    """
    if isinstance(stored, pa.BaseExtensionType):  # of Variants, to who has registered it
        stored = stored.storage_type
    if not (pa.types.is_struct(stored) and pa.types.is_struct(shown)):
        inner = zip(_list_inner(stored), _list_inner(shown), strict=False)
        return any(loses_shredded(one, other) for one, other in inner)
    names = {field.name: field.type for field in stored}
    if TYPED_VALUE in names and shown.get_field_index(TYPED_VALUE) < 0 and _is_binary(names.get(METADATA)):
        return True
    return any(loses_shredded(names[field.name], field.type) for field in shown if field.name in names)


def show_json(schema: pa.Schema) -> pa.Schema:
    """Return a schema with texts, of JSON, in place of Variants; also of those within structs and lists."""
    return pa.schema([_show_field(field) for field in schema], schema.metadata)


def _show_field(field: pa.Field) -> pa.Field:
    shown = _show_type(field.type)
    return field if shown is field.type else field.with_type(shown)


def _show_type(arrow_type: pa.DataType) -> pa.DataType:
    stored = arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type
    types = pa.types
    if may_be_variant(stored):
        return pa.large_string()
    if types.is_struct(stored):
        return pa.struct([_show_field(field) for field in stored])
    if types.is_list(stored):
        return pa.list_(_show_field(stored.value_field))
    if types.is_large_list(stored):
        return pa.large_list(_show_field(stored.value_field))
    return arrow_type


def may_be_variant(arrow_type: pa.DataType) -> bool:
    """Return whether a column of this type can be shown as Variants: structs that are no Variants may be such, too."""
    if not pa.types.is_struct(arrow_type):
        return False
    names = [field.name for field in arrow_type]
    is_alike = METADATA in names and 2 <= len(names) == len({*names} & {METADATA, VALUE, TYPED_VALUE})
    return is_alike and _is_binary(arrow_type.field(METADATA).type)


def has_parts_of_variant(arrow_type: pa.DataType) -> bool:
    """Return whether a column is a struct of a Variant's parts alone, of which some may not have been read."""
    return pa.types.is_struct(arrow_type) and {field.name for field in arrow_type} <= {METADATA, VALUE, TYPED_VALUE}


def _list_inner(arrow_type: pa.DataType) -> list[pa.DataType]:
    """Return the types of what lists and maps consist of."""
    if pa.types.is_map(arrow_type):
        return [arrow_type.key_type, arrow_type.item_type]
    return [arrow_type.value_type] if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) else []


def _is_binary(arrow_type: pa.DataType | None) -> bool:
    return arrow_type is not None and (pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type))
