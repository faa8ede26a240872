"""Arrow data as files give it -> Arrow data of exactly the type that Spark expects of Python."""

from __future__ import annotations

from collections.abc import Sequence

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
)

from ..session.fields import CHAR, DEFAULT, fold_case, types_of

_PLAIN: dict[type[DataType], pa.DataType] = {
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
}

# Types in files that Spark reads as such a column, value by value. INT96 comes as nanoseconds without a zone.
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


def find_unknown_type(data_type: DataType) -> DataType | None:
    """The first type within a type that `arrow_type` does not know, or None."""
    known = (*_PLAIN, DecimalType, ArrayType, MapType, StructType)
    return next((kind for kind in types_of(data_type) if type(kind) not in known), None)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Spark type that `find_problem` knows."""
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, ArrayType):
        return pa.list_(pa.field("element", arrow_type(data_type.elementType), data_type.containsNull))
    if isinstance(data_type, MapType):
        key = pa.field("key", arrow_type(data_type.keyType), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(data_type.valueType), data_type.valueContainsNull))
    if isinstance(data_type, StructType):
        return pa.struct([arrow_field(field) for field in data_type.fields])
    return _PLAIN[type(data_type)]


def arrow_field(field: StructField) -> pa.Field:
    """The Arrow field of a Spark field."""
    return pa.field(field.name, arrow_type(field.dataType), field.nullable)


def find_problem(fields: Sequence[StructField], stored: pa.Schema | pa.StructType, ignore_case: bool) -> str | None:
    """Why columns of a file cannot be turned into Spark's value by value, or None when they can.

    Parameters
    ----------
    fields : what Spark expects.
    stored : what pyarrow makes of the file, INT96 as nanoseconds.
    """
    for field in fields:
        found = _named(stored, field.name, ignore_case)
        problem = None
        if CHAR in field.metadata:
            problem = "its texts are padded"
        elif len(found) > 1:
            problem = f"the file has {len(found)} columns of that name"
        elif found:
            problem = _type_problem(field.dataType, stored.field(found[0]).type, ignore_case)
        elif DEFAULT in field.metadata or not field.nullable:
            problem = "the file does not have it, and it has a default"
        else:
            problem = _type_problem(field.dataType, None, ignore_case)
        if problem:
            return f"'{field.name}': {problem}"
    return None


def _named(stored: pa.Schema | pa.StructType, name: str, ignore_case: bool) -> list[int]:
    wanted = fold_case(name, ignore_case)
    return [index for index, field in enumerate(stored) if fold_case(field.name, ignore_case) == wanted]


def _type_problem(data_type: DataType, stored: pa.DataType | None, ignore_case: bool) -> str | None:
    """Why a stored type cannot be read as a Spark type; a missing column (None) can, if the Spark type is known."""
    parts: list[tuple[DataType, pa.DataType | None]] = []
    known, types = False, pa.types
    stored = stored.value_type if stored is not None and types.is_dictionary(stored) else stored
    if isinstance(data_type, StructType):
        if stored is None:
            parts = [(field.dataType, None) for field in data_type.fields]
            known = True
        elif types.is_struct(stored):
            if not any(_named(stored, field.name, ignore_case) for field in data_type.fields):
                return "the file's struct has none of its fields"
            return find_problem(data_type.fields, stored, ignore_case)
    elif isinstance(data_type, ArrayType):
        known = stored is None or types.is_list(stored) or types.is_large_list(stored)
        parts = [(data_type.elementType, stored.value_type if known and stored is not None else None)]
    elif isinstance(data_type, MapType):
        known = stored is None or types.is_map(stored)
        parts = [(data_type.keyType, stored.key_type if known and stored is not None else None)]
        parts.append((data_type.valueType, stored.item_type if known and stored is not None else None))
    else:
        known = _reads_as(data_type, stored)
    if not known:
        return f"{stored or 'missing'} cannot be read as {data_type.simpleString()} outside of Spark"
    return next(filter(None, (_type_problem(*part, ignore_case) for part in parts)), None)


def _reads_as(data_type: DataType, stored: pa.DataType | None) -> bool:
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
    """The columns of a schema from a batch, in the schema's types; those that it does not have are null."""
    return [
        _conform(batch.column(found[0]), field.type, ignore_case) if found else pa.nulls(batch.num_rows, field.type)
        for field in schema
        for found in [_named(batch.schema, field.name, ignore_case)]
    ]


def _conform(array: pa.Array, target: pa.DataType, ignore_case: bool) -> pa.Array:
    if array.type == target:
        return array
    if not pa.types.is_nested(target):
        return array.cast(target)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.offset:
        # Children of a slice stand where those of the whole stand; a copy begins at zero.
        array = pa.concat_arrays([array, pa.array([], array.type)])
    validity = array.buffers()[0]
    if pa.types.is_struct(target):
        children = []
        for field in target:
            found = _named(array.type, field.name, ignore_case)
            child = array.field(found[0]) if found else pa.nulls(len(array), field.type)
            children.append(_conform(child, field.type, ignore_case))
        return pa.StructArray.from_buffers(target, len(array), [validity], array.null_count, children=children)
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if pa.types.is_map(target):
        entries = _conform(_entries(array), _entries_type(target), ignore_case)
        children = [entries]
    else:
        children = [_conform(array.values, target.value_type, ignore_case)]
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, children=children)


def _entries(array: pa.MapArray) -> pa.StructArray:
    """Keys and values of all maps, as the structs that they are stored as."""
    keys, items = array.keys, array.items
    return pa.StructArray.from_arrays([keys, items], fields=list(_entries_type(array.type)))


def _entries_type(map_type: pa.MapType) -> pa.StructType:
    key = pa.field("key", map_type.key_type, nullable=False)
    return pa.struct([key, pa.field("value", map_type.item_type, map_type.item_field.nullable)])
