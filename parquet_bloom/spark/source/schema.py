"""The schema that Spark gives a Parquet file: the one it wrote into the footer, or else what the types say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import UnreadableColumnError
from ...file.columns import type_of
from ...file.reader import BloomFile
from ...hashing.column_type import ColumnType, Kind
from ...metadata.footer import Leaf
from ...scan.model.schemas import arrow_schema, reading

_WRITTEN = b"org.apache.spark.sql.parquet.row.metadata"
_SIGNED: dict[int, type[DataType]] = {8: ByteType, 16: ShortType, 32: IntegerType, 64: LongType}
_UNSIGNED: dict[int, DataType] = {8: ShortType(), 16: IntegerType(), 32: LongType(), 64: DecimalType(20, 0)}
_MOST_DIGITS = 38


@dataclass(frozen=True)
class Inference:
    """Settings that decide which types Spark infers.

    Attributes
    ----------
    binary_as_string : byte arrays of unknown meaning are texts.
    wall_clocks : timestamps that are no instants are TIMESTAMP_NTZ.
    """

    binary_as_string: bool = False
    wall_clocks: bool = True


def schema_of(file: BloomFile, inference: Inference) -> StructType:
    """The columns of a file, all of which may be null, as Spark shows those of files.

    Raises
    ------
    UnreadableColumnError
        Spark has no such type, or the schema in the footer is not understood.
    """
    written = file.footer.key_value_metadata.get(_WRITTEN)
    if written is not None:
        try:
            return nullable(StructType.fromJson(json.loads(written)))
        except Exception as error:  # whatever is not as Spark writes it; pyspark raises anything
            problem = f"the schema that Spark wrote into the footer is not understood: {type(error).__name__}"
            raise UnreadableColumnError(problem, path=file.path) from error
    with reading(file):
        leaves = iter(file.leaves)
        return StructType([_inferred(field, leaves, inference) for field in arrow_schema(file)])


def nullable(data_type: Any) -> Any:
    """The same type with nulls allowed everywhere."""
    if isinstance(data_type, StructType):
        fields = [StructField(f.name, nullable(f.dataType), True, f.metadata) for f in data_type.fields]
        return StructType(fields)
    if isinstance(data_type, ArrayType):
        return ArrayType(nullable(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(nullable(data_type.keyType), nullable(data_type.valueType), True)
    return data_type


def _inferred(field: pa.Field, leaves: Iterator[Leaf], inference: Inference) -> StructField:
    return StructField(field.name, _type(field.type, leaves, inference), True)


def _type(arrow: pa.DataType, leaves: Iterator[Leaf], inference: Inference) -> DataType:
    """The type of a column; each leaf of it is taken from the file's, which come in the same order."""
    types = pa.types
    if types.is_struct(arrow):
        return StructType([_inferred(field, leaves, inference) for field in arrow])
    if types.is_map(arrow):
        return MapType(_type(arrow.key_type, leaves, inference), _type(arrow.item_type, leaves, inference), True)
    if any(is_list(arrow) for is_list in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return ArrayType(_type(arrow.value_type, leaves, inference), True)
    leaf = next(leaves)
    found = _leaf_type(type_of(leaf), inference)
    if found is None:
        raise UnreadableColumnError(f"Spark has no type for {type_of(leaf)}", column=leaf.name)
    return found


def _leaf_type(stored: ColumnType, inference: Inference) -> DataType | None:
    kind = stored.kind
    if kind is Kind.INTEGER and stored.physical in ("INT32", "INT64"):
        bits = stored.bits or (32 if stored.physical == "INT32" else 64)
        return _SIGNED[bits]() if stored.signed else _UNSIGNED[bits]
    if kind is Kind.DECIMAL and (stored.precision or 0) <= _MOST_DIGITS:
        return DecimalType(stored.precision or 0, stored.scale)
    if kind is Kind.BYTES:
        as_text = inference.binary_as_string and stored.physical == "BYTE_ARRAY" and not stored.name
        return StringType() if as_text else BinaryType()
    if kind is Kind.TIMESTAMP:
        if stored.physical == "INT96":
            return TimestampType()
        is_wall_clock = not stored.utc and inference.wall_clocks
        return None if stored.unit == "ns" else TimestampNTZType() if is_wall_clock else TimestampType()
    if kind is Kind.UNKNOWN and stored.name == "NULL" and stored.physical == "INT32":
        return IntegerType()  # a column without any value, as pyarrow and pandas write it
    if kind is Kind.FLOAT:
        return {"FLOAT": FloatType(), "DOUBLE": DoubleType()}.get(stored.physical)
    plain: dict[Kind, DataType] = {Kind.BOOLEAN: BooleanType(), Kind.STRING: StringType(), Kind.DATE: DateType()}
    return plain.get(kind)
