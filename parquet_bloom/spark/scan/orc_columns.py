"""Compatibility of an ORC file's columns with Spark: whether Spark reads a column by its name, as it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import (
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
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from ...file.reader import BloomFile
from ...orc import OrcFile
from ..session.fallback import CannotPush
from ..session.fields import Field, fold_case
from ..session.jvm import is_classic
from ..session.settings import setting
from .parquet_columns import NO_COLUMN
from .trust import SparkCompatibility

BY_POSITION = "columns are found by their positions, not by their names"
_POSITIONAL = "orc.force.positional.evolution"

# Types of a file that Spark shows as they are stored. Timestamps may be shifted: `condition.for_orc` widens their
# comparisons by a day.
_STORED: dict[type[DataType], tuple[str, ...]] = {
    BooleanType: ("BOOLEAN",),
    ByteType: ("BYTE",),
    ShortType: ("BYTE", "SHORT"),
    IntegerType: ("BYTE", "SHORT", "INT"),
    LongType: ("BYTE", "SHORT", "INT", "LONG"),
    FloatType: ("FLOAT",),
    DoubleType: ("FLOAT", "DOUBLE"),
    StringType: ("STRING", "VARCHAR"),
    BinaryType: ("BINARY",),
    DateType: ("DATE",),
    DecimalType: ("DECIMAL",),
    TimestampType: ("TIMESTAMP", "TIMESTAMP_INSTANT"),
    TimestampNTZType: ("LONG",),  # of microseconds
}


@dataclass(frozen=True)
class OrcCompatibility(SparkCompatibility):
    """`file.statistics.ColumnCompatibility` of a Spark session that reads ORC files.

    Attributes
    ----------
    names : the columns that Spark looks for in files, in its order; files without column names get these names.
    """

    names: tuple[str, ...] = ()

    def doubts(self, file: BloomFile) -> dict[str, str]:
        return {name: "it is not an ORC file" for name, _ in self.fields}  # Spark reports the error

    def orc_doubts(self, file: OrcFile) -> dict[str, str]:
        """Return the `doubts` of an ORC file."""
        if self._is_positional(file):
            return {name: BY_POSITION for name, _ in self.fields}
        doubts = ((name, find_column_problem(file, field, self.rules.ignore_case)) for name, field in self.fields)
        return {name: doubt for name, doubt in doubts if doubt is not None}

    def _is_positional(self, file: OrcFile) -> bool:
        """Return whether Spark finds a file's columns by position, as in files of old Hive, rather than by name."""
        names = list(dict.fromkeys(leaf.path[0] for leaf in file.leaves))
        return all(name.startswith("_col") for name in names) and names != list(self.names[: len(names)])


def find_column_problem(file: OrcFile, field: Field, ignore_case: bool) -> str | None:
    """Return why a file's evidence about a column must not be used, or None."""
    path = [fold_case(part, ignore_case) for part in field.path]
    leaves = [leaf for leaf in file.leaves if [fold_case(part, ignore_case) for part in leaf.path[: len(path)]] == path]
    if not leaves:
        return NO_COLUMN
    (leaf, *others) = leaves
    if others or leaf.repeated or len(leaf.path) != len(path):
        return f"the name is ambiguous in the file: {', '.join(one.name for one in leaves[:3])}"
    stored, spark_type = leaf.column_type, type(field.type)
    is_same = leaf.kind in _STORED.get(spark_type, ())
    if is_same and isinstance(field.type, DecimalType):
        is_same = stored.scale == field.type.scale and (stored.precision or 99) <= field.type.precision
    return None if is_same else f"{stored.name or leaf.kind.lower()} in the file is read as {field.type.simpleString()}"


def refuse_settings(spark: SparkSession, options: Mapping[str, Any]) -> None:
    """Raise CannotPush in a session that reads ORC files by another reader than Spark's, or by position."""
    reader = setting(spark, "spark.sql.orc.impl").lower()
    if reader not in ("native", ""):
        raise CannotPush(f"ORC files are read by {reader}'s reader, not by Spark's own")
    values: list[Any] = [value for name, value in options.items() if name.lower() == _POSITIONAL]
    values += [spark.conf.get(_POSITIONAL, None), spark.conf.get(f"spark.hadoop.{_POSITIONAL}", None)]
    if is_classic(spark):
        values.append(spark._jsc.hadoopConfiguration().get(_POSITIONAL))
    if any(str(value).strip().lower() == "true" for value in values):
        raise CannotPush(BY_POSITION)


def file_column_names(schema_names: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that Spark looks for in files, in its order.

    Parameters
    ----------
    schema_names : columns of the DataFrame.
    folders : the partition columns, which come last unless files have them as well.

    Raises
    ------
    CannotPush
        Files have them as well: whether Spark counts them depends on who provides the schema, Spark or the caller.
    """
    num_stored = len(schema_names) - len(folders)
    if list(schema_names[num_stored:]) != list(folders):
        raise CannotPush("files have columns with the names of partition columns")
    return tuple(schema_names[:num_stored])
