"""One ORC file as Spark reads it: whether its column is what the predicate is about, stored as it is shown."""

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

BY_POSITION = "columns are found by their places, not by their names"
_POSITIONAL = "orc.force.positional.evolution"

# By which types of a file Spark shows the very values that are stored. Of timestamps it shows more or less: see
# `orc_condition`, which asks for a day around each.
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
class OrcTrust(SparkCompatibility):
    """`file.facts.Trust` of a Spark session that reads ORC files.

    Attributes
    ----------
    names : of the columns that are looked for in files, in Spark's order: files without names of their own have these.
    """

    names: tuple[str, ...] = ()

    def doubts(self, file: BloomFile) -> dict[str, str]:
        return {name: "it is no ORC file" for name, _ in self.fields}  # Spark says what it thinks of it

    def orc_doubts(self, file: OrcFile) -> dict[str, str]:
        """`doubts` of an ORC file."""
        if self._by_position(file):
            return {name: BY_POSITION for name, _ in self.fields}
        found = ((name, column_doubt(file, field, self.rules.ignore_case)) for name, field in self.fields)
        return {name: doubt for name, doubt in found if doubt is not None}

    def _by_position(self, file: OrcFile) -> bool:
        """Whether a file's columns are found by place, as those of old Hive are, and not under their own names."""
        own = list(dict.fromkeys(leaf.path[0] for leaf in file.leaves))
        return all(name.startswith("_col") for name in own) and own != list(self.names[: len(own)])


def column_doubt(file: OrcFile, field: Field, ignore_case: bool) -> str | None:
    """Why a file's evidence on a column may not be used, or None when it may."""
    wanted = [fold_case(part, ignore_case) for part in field.path]
    leaves = [
        leaf for leaf in file.leaves if [fold_case(part, ignore_case) for part in leaf.path[: len(wanted)]] == wanted
    ]
    if not leaves:
        return NO_COLUMN
    (leaf, *others) = leaves
    if others or leaf.repeated or len(leaf.path) != len(wanted):
        return f"the name stands for {', '.join(one.name for one in leaves[:3])} in the file"
    stored, by = leaf.column_type, type(field.type)
    same = leaf.kind in _STORED.get(by, ())
    if same and isinstance(field.type, DecimalType):
        same = stored.scale == field.type.scale and (stored.precision or 99) <= field.type.precision
    return None if same else f"{stored.name or leaf.kind.lower()} in the file is read as {field.type.simpleString()}"


def refuse_settings(spark: SparkSession, options: Mapping[str, Any]) -> None:
    """Raise Doubt in a session that reads ORC files in another way than by Spark's own reader and by name."""
    reader = setting(spark, "spark.sql.orc.impl").lower()
    if reader not in ("native", ""):
        raise CannotPush(f"ORC files are read by {reader}'s reader, not by Spark's own")
    said: list[Any] = [value for name, value in options.items() if name.lower() == _POSITIONAL]
    said += [spark.conf.get(_POSITIONAL, None), spark.conf.get(f"spark.hadoop.{_POSITIONAL}", None)]
    if is_classic(spark):
        said.append(spark._jsc.hadoopConfiguration().get(_POSITIONAL))
    if any(str(value).strip().lower() == "true" for value in said):
        raise CannotPush(BY_POSITION)


def names_by_place(schema_names: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    """The columns that are looked for in files, in Spark's order.

    Parameters
    ----------
    schema_names : of the DataFrame.
    folders : the partition columns, which come last unless files have them too.

    Raises
    ------
    Doubt
        Files have them too: Spark counts them if it finds the schema itself, but not if it is given one.
    """
    inside = len(schema_names) - len(folders)
    if list(schema_names[inside:]) != list(folders):
        raise CannotPush("files have columns of the same names as their folders")
    return tuple(schema_names[:inside])
