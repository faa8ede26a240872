"""Compatibility of a Parquet file's columns with Spark: whether Spark shows their values as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from ...file.bloom_file import BloomFile
from ...file.file_columns import holds_elements, type_of
from ...hashing.column_type import ColumnType, Kind
from ...metadata.footer import SchemaLeaf
from ...predicate.reason import MISSING, Reason
from ..session.session_settings import CannotPush, SparkField, find_leaves, ignores_case, is_set, setting
from ..spark_arrow import INTEGER_BITS


@dataclass(frozen=True)
class SparkCompatibility:
    """`file.statistics.ColumnCompatibility` of a Spark session.

    Attributes
    ----------
    fields : (name in the predicate, column), sorted by name.
    rules : how the session reads files.
    """

    fields: tuple[tuple[str, SparkField], ...]
    rules: Rules

    @classmethod
    def of(cls, fields: Mapping[str, SparkField], rules: Rules) -> SparkCompatibility:
        """Return the compatibility for {name in the predicate: column}."""
        return cls(tuple(sorted(fields.items(), key=lambda item: item[0])), rules)

    @property
    def by_schema(self) -> bool:
        return False

    def doubts(self, file: BloomFile) -> dict[str, str]:
        doubts = ((name, find_column_problem(file, field, self.rules)) for name, field in self.fields)
        return {name: doubt for name, doubt in doubts if doubt is not None}

    @cached_property
    def _hash(self) -> int:
        return hash((tuple(name for name, _ in self.fields), self.rules))

    def __hash__(self) -> int:
        return self._hash


_VERSION = b"org.apache.spark.version"
_LEGACY_DAYS = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"


@dataclass(frozen=True)
class Rules:
    """Settings of a session and of one read that decide how Spark reads a file.

    Attributes
    ----------
    ignore_case : whether names match without regard to case.
    legacy_days, legacy_int96 : whether files without a Spark version are read by the legacy calendar.
    shifts_int96 : whether INT96 timestamps of other writers are shifted to the session's zone.
    """

    ignore_case: bool = True
    legacy_days: bool = False
    legacy_int96: bool = False
    shifts_int96: bool = False

    @classmethod
    def of(cls, spark: SparkSession, options: Mapping[str, Any]) -> Rules:
        """Return the rules under a session's settings and a reader's options."""
        reader_options = {name.lower(): str(value) for name, value in options.items()}

        def is_legacy(option: str, key: str) -> bool:
            return (reader_options.get(option) or setting(spark, key)).upper() == "LEGACY"

        return cls(
            ignores_case(spark),
            is_legacy("datetimerebasemode", "spark.sql.parquet.datetimeRebaseModeInRead"),
            is_legacy("int96rebasemode", "spark.sql.parquet.int96RebaseModeInRead"),
            is_set(spark, "spark.sql.parquet.int96TimestampConversion"),
        )

    def legacy_calendar(self, file: BloomFile) -> str | None:
        """Return why days or timestamps of a file may use the legacy calendar, or None."""
        metadata = file.footer.key_value_metadata
        for key in (_LEGACY_DAYS, _LEGACY_INT96):
            if key in metadata:
                return f"the file has {key.decode()}"
        version = str(metadata.get(_VERSION) or b"", "utf-8", "replace")
        if version and version < "3.1.0":  # compared as strings, as in Spark
            return f"the file was written by Spark {version}"
        if not version and (self.legacy_days or self.legacy_int96):
            return "files of unknown age are read by the legacy calendar"
        return None

    def raw_int96(self, file: BloomFile) -> bool:
        """Return whether Spark shows INT96 timestamps of a file as stored: whole microseconds, written by Spark."""
        by_spark = _VERSION in file.footer.key_value_metadata
        return by_spark and (file.footer.created_by or "").startswith("parquet-mr")


def refuse_field_ids(spark: SparkSession) -> None:
    """Raise CannotPush in a session that finds columns by their field ids instead of their names."""
    if is_set(spark, "spark.sql.parquet.fieldId.read.enabled"):
        raise CannotPush("columns are found by their field ids, not by their names")


NO_COLUMN = Reason("the file has no such column", MISSING)


def find_column_problem(file: BloomFile, field: SparkField, rules: Rules) -> str | None:
    """Return why a file's evidence about a column must not be used, or None."""
    leaves = find_leaves(file.leaves, field, rules.ignore_case)
    if not leaves:
        return NO_COLUMN
    data_type = field.type
    if isinstance(data_type, VariantType):
        return rules.legacy_calendar(file)  # for days and timestamps; what else is evidence of a path has its very type
    if isinstance(data_type, MapType) and len(leaves) == 2:  # its keys and values
        types = (data_type.keyType, data_type.valueType)
        problems = (_find_type_problem(file, *pair, rules) for pair in zip(leaves, types, strict=True))
        return next(filter(None, problems), None)
    if len(leaves) == 1 and isinstance(data_type, ArrayType):
        data_type = data_type.elementType
        is_column = holds_elements(leaves[0], field.name, rules.ignore_case)
    else:
        is_column = len(leaves) == 1 and not leaves[0].repeated and len(leaves[0].path) == len(field.path)
    if not is_column:
        return f"the name is ambiguous in the file: {', '.join(leaf.name for leaf in leaves[:3])}"
    return _find_type_problem(file, leaves[0], data_type, rules)


def _find_type_problem(file: BloomFile, leaf: SchemaLeaf, data_type: DataType, rules: Rules) -> str | None:
    """Return why Spark may show other values of a type than are stored, or None."""
    column_type = type_of(leaf)
    if not is_stored_as(data_type, column_type):
        return f"{column_type} in the file is read as {data_type.simpleString()}"
    if isinstance(data_type, DateType | TimestampType):
        if column_type.physical == "INT96" and not rules.raw_int96(file):
            return "INT96 timestamps of other writers than Spark may be truncated"
        return rules.legacy_calendar(file)
    return None


def is_stored_as(data_type: DataType, stored: ColumnType) -> bool:
    """Return whether a file's type holds the same values that Spark shows."""
    kind, by = stored.kind, type(data_type)
    if by in INTEGER_BITS:
        bits = stored.bits or 64
        return kind is Kind.INTEGER and (bits <= INTEGER_BITS[by] if stored.signed else bits < INTEGER_BITS[by])
    if isinstance(data_type, DecimalType):
        narrow = (stored.precision or 99) <= data_type.precision
        return kind is Kind.DECIMAL and stored.scale == data_type.scale and narrow
    if by is StringType:
        return kind in (Kind.STRING, Kind.BYTES) and stored.physical == "BYTE_ARRAY"
    if by is BinaryType:
        return kind in (Kind.STRING, Kind.BYTES)
    if by is TimestampType:
        return kind is Kind.TIMESTAMP and (stored.physical == "INT96" or (stored.utc is True and stored.unit != "ns"))
    if by is TimestampNTZType:
        return kind is Kind.TIMESTAMP and stored.utc is False and stored.unit != "ns"
    floats = {FloatType: ("FLOAT",), DoubleType: ("FLOAT", "DOUBLE")}
    if by in floats:
        return kind is Kind.FLOAT and stored.physical in floats[by]
    return kind is Kind.BOOLEAN if by is BooleanType else by is DateType and kind is Kind.DATE
