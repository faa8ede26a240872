"""Schema that Spark gives a Parquet file: the one that Spark wrote into the footer, or one inferred from the types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
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
    VariantType,
)

from ...errors import UnreadableColumnError
from ...file.bloom_file import BloomFile
from ...file.file_columns import is_variant_group, type_of
from ...hashing.column_type import ColumnType, Kind
from ...metadata.footer import SchemaLeaf
from ...scan.model.file_schemas import arrow_schema, reading
from ..spark_arrow import INTEGER_BITS, spark_type

_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_SIGNED = {bits: kind for kind, bits in INTEGER_BITS.items()}
_UNSIGNED: dict[int, DataType] = {8: ShortType(), 16: IntegerType(), 32: LongType(), 64: DecimalType(20, 0)}
_MAX_PRECISION = 38


@dataclass(frozen=True)
class Inference:
    """Settings that decide which types Spark infers.

    Attributes
    ----------
    binary_as_string : unannotated byte arrays are strings.
    wall_clocks : timestamps without UTC adjustment are TIMESTAMP_NTZ.
    """

    binary_as_string: bool = False
    wall_clocks: bool = True


def infer_schema(file: BloomFile, inference: Inference) -> StructType:
    """Return the columns of a file, all nullable, as Spark shows those of files.

    Raises
    ------
    UnreadableColumnError
        Spark has no type for a column, or the schema in the footer is invalid.
    """
    written = file.footer.key_value_metadata.get(_SCHEMA_KEY)
    if written is not None:
        try:
            return make_nullable(StructType.fromJson(json.loads(written)))
        except Exception as error:  # pyspark raises many types for malformed schemas
            problem = f"the schema that Spark wrote into the footer is invalid: {type(error).__name__}"
            raise UnreadableColumnError(problem, path=file.path) from error
    with reading(file):
        leaves = iter(file.leaves)
        return StructType(
            [StructField(field.name, _infer_type(field.type, leaves, inference)) for field in arrow_schema(file)]
        )


def infer_columns(file: BloomFile, schema: pa.Schema, names: Sequence[str]) -> Iterator[tuple[str, DataType | None]]:
    """Yield some top-level columns of a file with the types that Spark infers from those in the file alone.

    Parameters
    ----------
    schema : of the file.
    names : the columns. One that Spark has no type for, or that the file has twice, is yielded with None.
    """
    for name in names:
        leaves = iter([leaf for leaf in file.leaves if leaf.path[0] == name])
        try:
            fields = [field for field in schema if field.name == name]
            yield name, _infer_type(fields[0].type, leaves, Inference()) if len(fields) == 1 else None
        except UnreadableColumnError:
            yield name, None


def make_nullable(data_type: Any) -> Any:
    """Return the type with nulls allowed at every level."""
    if isinstance(data_type, StructType):
        fields = [StructField(f.name, make_nullable(f.dataType), True, f.metadata) for f in data_type.fields]
        return StructType(fields)
    if isinstance(data_type, ArrayType):
        return ArrayType(make_nullable(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(make_nullable(data_type.keyType), make_nullable(data_type.valueType), True)
    return data_type


def _infer_type(arrow: pa.DataType, leaves: Iterator[SchemaLeaf], inference: Inference) -> DataType:
    """Return the type of a column; its leaves are taken from the iterator, in schema order."""
    first = next(leaves)
    if is_variant_group(first.nodes[0]):
        for _ in range(_count_leaves(arrow) - 1):
            next(leaves)
        return VariantType()
    leaves = chain([first], leaves)

    def infer_leaf(_: pa.DataType) -> DataType:
        leaf = next(leaves)
        data_type = _infer_leaf_type(type_of(leaf), inference)
        if data_type is None:
            raise UnreadableColumnError(f"Spark has no type for {type_of(leaf)}", column=leaf.name)
        return data_type

    data_type = spark_type(arrow, infer_leaf)
    assert data_type is not None
    return data_type


def _count_leaves(arrow: pa.DataType) -> int:
    parts = (arrow.field(i).type for i in range(arrow.num_fields))
    return sum(map(_count_leaves, parts)) or 1


def _infer_leaf_type(stored: ColumnType, inference: Inference) -> DataType | None:
    kind = stored.kind
    if kind is Kind.INTEGER and stored.physical in ("INT32", "INT64"):
        bits = stored.bits or (32 if stored.physical == "INT32" else 64)
        return _SIGNED[bits]() if stored.signed else _UNSIGNED[bits]
    if kind is Kind.DECIMAL and (stored.precision or 0) <= _MAX_PRECISION:
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
        return IntegerType()  # the null type of pyarrow and pandas
    if kind is Kind.FLOAT:
        return {"FLOAT": FloatType(), "DOUBLE": DoubleType()}.get(stored.physical)
    data_types: dict[Kind, DataType] = {Kind.BOOLEAN: BooleanType(), Kind.STRING: StringType(), Kind.DATE: DateType()}
    return data_types.get(kind)
