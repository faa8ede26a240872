"""Convert Arrow data of files to exactly the Arrow types that Spark expects from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from .session.session_settings import CHAR, DEFAULT, fold_case, iter_types

INTEGER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}

ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", "UTC"),
    TimestampNTZType: pa.timestamp("us"),
    DayTimeIntervalType: pa.duration("us"),
    NullType: pa.null(),
    VariantType: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
        ]
    ),
}

# Types in files whose values Spark reads unchanged as a column type. INT96 is read as nanoseconds without a zone.
_READ_AS: dict[type[DataType], tuple[pa.DataType, ...]] = {
    BooleanType: (pa.bool_(),),
    ByteType: (pa.int8(),),
    ShortType: (pa.int8(), pa.int16(), pa.uint8()),
    IntegerType: (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.null()),
    LongType: (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    FloatType: (pa.float32(),),
    DoubleType: (pa.float32(), pa.float64()),
    StringType: (pa.string(), pa.large_string(), pa.string_view()),
    BinaryType: (pa.binary(), pa.large_binary(), pa.binary_view()),
    DateType: (pa.date32(),),
    TimestampType: (pa.timestamp("ns"),),
    TimestampNTZType: (pa.timestamp("us"), pa.timestamp("ms")),
    DayTimeIntervalType: (pa.int64(),),
}


def find_unknown_type(data_type: DataType, *, takes_variants: bool = False) -> DataType | None:
    """Return the first type within a type that `arrow_type` does not support, or None.

    Parameters
    ----------
    takes_variants : whether Variants go to Spark, which knows them, and not from it to files.
    """
    supported = {*ARROW_TYPES, DecimalType, ArrayType, MapType, StructType}
    if not takes_variants:
        supported.remove(VariantType)
    return next((kind for kind in iter_types(data_type) if type(kind) not in supported), None)


def arrow_type(data_type: DataType) -> pa.DataType:
    """Convert a Spark type that `find_unknown_type` accepts to an Arrow type."""
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, ArrayType):
        return pa.list_(pa.field("element", arrow_type(data_type.elementType), data_type.containsNull))
    if isinstance(data_type, MapType):
        key = pa.field("key", arrow_type(data_type.keyType), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(data_type.valueType), data_type.valueContainsNull))
    if isinstance(data_type, StructType):
        return pa.struct([arrow_field(field) for field in data_type.fields])
    return ARROW_TYPES[type(data_type)]


def _find_leaf_type(arrow: pa.DataType) -> DataType | None:
    types = pa.types
    if types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale) if 0 <= arrow.scale <= arrow.precision <= 38 else None
    if types.is_timestamp(arrow):
        return None if arrow.unit == "ns" else TimestampType() if arrow.tz is not None else TimestampNTZType()
    if types.is_large_string(arrow) or types.is_string_view(arrow):
        return StringType()
    if types.is_large_binary(arrow) or types.is_binary_view(arrow) or types.is_fixed_size_binary(arrow):
        return BinaryType()
    exact = (
        kind()
        for kind, plain in ARROW_TYPES.items()
        if plain.equals(arrow) and kind not in (NullType, DayTimeIntervalType, VariantType)
    )
    return next(exact, None)


def spark_type(
    arrow: pa.DataType, find_leaf_type: Callable[[pa.DataType], DataType | None] = _find_leaf_type
) -> DataType | None:
    """Return the Spark type that has the values of an Arrow type, with nulls at every level; None if there is none.

    Parameters
    ----------
    find_leaf_type : returns the type of a leaf; called for all leaves, in schema order.
    """
    types = pa.types
    if types.is_struct(arrow):
        fields = [(field.name, spark_type(field.type, find_leaf_type)) for field in arrow]
        known = [StructField(name, data_type) for name, data_type in fields if data_type is not None]
        return StructType(known) if len(known) == len(fields) else None
    if types.is_map(arrow):
        key, value = spark_type(arrow.key_type, find_leaf_type), spark_type(arrow.item_type, find_leaf_type)
        return None if key is None or value is None else MapType(key, value)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        element = spark_type(arrow.value_type, find_leaf_type)
        return None if element is None else ArrayType(element)
    return find_leaf_type(arrow.value_type if types.is_dictionary(arrow) else arrow)


def arrow_field(field: StructField) -> pa.Field:
    """Convert a Spark field to an Arrow field."""
    return pa.field(field.name, arrow_type(field.dataType), field.nullable)


def find_problem(fields: Sequence[StructField], stored: pa.Schema | pa.StructType, ignore_case: bool) -> str | None:
    """Return why columns of a file cannot be converted to Spark's value by value, or None if they can.

    Parameters
    ----------
    fields : fields that Spark expects.
    stored : schema of the file as pyarrow reads it, with INT96 as nanoseconds.
    """
    for field in fields:
        columns = _find_columns(stored, field.name, ignore_case)
        problem = None
        if CHAR in field.metadata:
            problem = "Spark pads its texts"
        elif len(columns) > 1:
            problem = f"the file has {len(columns)} columns of that name"
        elif columns:
            problem = _find_type_problem(field.dataType, stored.field(columns[0]).type, ignore_case)
        elif DEFAULT in field.metadata or not field.nullable:
            problem = "the file does not have it, and it has a default value or is not nullable"
        else:
            problem = _find_type_problem(field.dataType, None, ignore_case)
        if problem:
            return f"'{field.name}': {problem}"
    return None


def _find_columns(stored: pa.Schema | pa.StructType, name: str, ignore_case: bool) -> list[int]:
    folded = fold_case(name, ignore_case)
    return [i for i, field in enumerate(stored) if fold_case(field.name, ignore_case) == folded]


def _find_type_problem(data_type: DataType, stored: pa.DataType | None, ignore_case: bool) -> str | None:
    """Return why a stored type cannot be read as a Spark type, or None; a missing column (None) can be, as nulls."""
    parts: list[tuple[DataType, pa.DataType | None]] = []
    is_readable, types = False, pa.types
    stored = stored.value_type if stored is not None and types.is_dictionary(stored) else stored
    if isinstance(data_type, StructType):
        if stored is None:
            parts = [(field.dataType, None) for field in data_type.fields]
            is_readable = True
        elif types.is_struct(stored):
            if not any(_find_columns(stored, field.name, ignore_case) for field in data_type.fields):
                return "the file's struct has none of its fields"
            return find_problem(data_type.fields, stored, ignore_case)
    elif isinstance(data_type, ArrayType):
        is_readable = stored is None or types.is_list(stored) or types.is_large_list(stored)
        parts = [(data_type.elementType, stored.value_type if is_readable and stored is not None else None)]
    elif isinstance(data_type, MapType):
        is_readable = stored is None or types.is_map(stored)
        parts = [(data_type.keyType, stored.key_type if is_readable and stored is not None else None)]
        parts.append((data_type.valueType, stored.item_type if is_readable and stored is not None else None))
    elif isinstance(data_type, VariantType):
        if stored is not None and types.is_struct(stored) and stored.get_field_index("typed_value") >= 0:
            return "it is a shredded Variant, which only Spark's own reader puts together"
        is_readable = stored is None or (types.is_struct(stored) and {*stored.names} == {"metadata", "value"})
    else:
        is_readable = _is_readable(data_type, stored)
    if not is_readable:
        return f"{stored or 'missing'} cannot be read as {data_type.simpleString()} outside of Spark"
    return next(filter(None, (_find_type_problem(*part, ignore_case) for part in parts)), None)


def _is_readable(data_type: DataType, stored: pa.DataType | None) -> bool:
    if isinstance(data_type, DecimalType):
        if stored is None:
            return True
        return pa.types.is_decimal(stored) and (
            stored.scale == data_type.scale and stored.precision <= data_type.precision
        )
    if isinstance(data_type, StringType) and getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        return False
    accepted = _READ_AS.get(type(data_type))
    if accepted is None or stored is None:
        return accepted is not None
    if isinstance(data_type, TimestampType) and pa.types.is_timestamp(stored) and stored.tz is not None:
        return stored.unit in ("ms", "us")
    if isinstance(data_type, BinaryType) and pa.types.is_fixed_size_binary(stored):
        return True
    return stored in accepted


def conform(batch: pa.RecordBatch, schema: pa.Schema, ignore_case: bool) -> list[pa.Array]:
    """Convert the columns of a batch to the types of a schema; columns that the batch does not have are null."""
    return [
        _conform(batch.column(columns[0]), field.type, ignore_case) if columns else pa.nulls(batch.num_rows, field.type)
        for field in schema
        for columns in [_find_columns(batch.schema, field.name, ignore_case)]
    ]


def _conform(array: pa.Array, target: pa.DataType, ignore_case: bool) -> pa.Array:
    if array.type == target:
        return array
    if not pa.types.is_nested(target):
        return array.cast(target)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.offset:
        # A slice shares the children of the complete array, at an offset; the copy has its own, from zero.
        array = pa.concat_arrays([array, pa.array([], array.type)])
    validity = array.buffers()[0]
    if pa.types.is_struct(target):
        children = []
        for field in target:
            columns = _find_columns(array.type, field.name, ignore_case)
            child = array.field(columns[0]) if columns else pa.nulls(len(array), field.type)
            children.append(_conform(child, field.type, ignore_case))
        return pa.StructArray.from_buffers(target, len(array), [validity], array.null_count, children=children)
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if pa.types.is_map(target):
        entries = _conform(_make_entries(array), _make_entries_type(target), ignore_case)
        children = [entries]
    else:
        children = [_conform(array.values, target.value_type, ignore_case)]
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, children=children)


def _make_entries(array: pa.MapArray) -> pa.StructArray:
    """Return keys and values of all maps as an array of structs."""
    keys, items = array.keys, array.items
    return pa.StructArray.from_arrays([keys, items], fields=list(_make_entries_type(array.type)))


def _make_entries_type(map_type: pa.MapType) -> pa.StructType:
    key = pa.field("key", map_type.key_type, nullable=False)
    return pa.struct([key, pa.field("value", map_type.item_type, map_type.item_field.nullable)])
