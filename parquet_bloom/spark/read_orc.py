"""Reading ORC files with Spark: only those that can hold a match."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..file.bloom_file import BloomFile
from ..orc import OrcFile
from ..predicate import tree
from ..predicate.tree import And, Compare, Contains, Equal, In, Leaf, Node
from .condition.condition import Condition, read_condition
from .plan.column_trust import NO_COLUMN, Rules, SparkCompatibility
from .plan.lake_paths import open_paths, refuse_table, resolve_names
from .plan.reread import Reread
from .plan.spark_planner import ProbeOn, ScanPlanner
from .session.jvm import is_classic
from .session.session_settings import (
    CannotPush,
    SparkField,
    fold_case,
    ignores_case,
    log,
    path_list,
    select_columns,
    setting,
)
from .spark_partitions import Layout

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ..util.given_types import Paths, Predicate

_FIRST_DAY = dt.date(1582, 10, 15)
_MARGIN = dt.timedelta(days=1)
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class OrcCondition:
    """A condition over stored values.

    Attributes
    ----------
    condition : its node has values as they are stored; the node is None if nothing is left to evaluate.
    misleads : whether Spark's own tasks would skip matching rows if the condition were pushed down to them.
    """

    condition: Condition
    misleads: bool


def adapt_to_orc(condition: Condition) -> OrcCondition:
    """Convert a condition over the values of a DataFrame to one over the values stored in its ORC files.

    ORC timestamps are local times, which Spark shows as instants in the time zone of each task's JVM, so a day before
    and after them is included. TIMESTAMP_NTZ is stored as microseconds. Days before 1582-10-15 differ between two
    calendars, and Spark's own tasks use the wrong one.
    """
    if condition.node is None or condition.fields is None:
        return OrcCondition(condition, condition.meets_zero_or_nan)
    translator = _Translator(condition.fields)
    residual = tree.find_residual(condition.node, translator.leaf)
    node = residual if isinstance(residual, Node) else None
    unknown = (*condition.unknown, *translator.unknown)
    if node is not None and translator.unknown:
        log.info("left to Spark alone: %s", "; ".join(translator.unknown))
    stored = replace(condition, node=node, problem="; ".join(dict.fromkeys(unknown)), unknown=unknown)
    return OrcCondition(stored, translator.misleads or condition.meets_zero_or_nan)


class _Translator:
    """Converter of a condition's leaves, which collects what cannot be converted; that may be true of any row."""

    def __init__(self, fields: Mapping[str, SparkField]):
        self._fields = fields
        self.unknown: list[str] = []
        self.misleads = False

    def leaf(self, item: Leaf) -> Node | bool:
        data_type = self._fields[item.column].type
        if isinstance(item, Contains):
            self.unknown.append(f"{item}: ORC files have no statistics of list elements")
            return True
        if not isinstance(item, Equal | In) or all(value is None for value in item.literals):
            return item
        values: list[Any] = [value for value in item.literals if value is not None]
        if isinstance(data_type, DateType):
            if any(value < _FIRST_DAY for value in values):
                self.misleads = True
                self.unknown.append(f"{item}: days before {_FIRST_DAY} differ between two calendars")
                return True
        elif isinstance(data_type, TimestampNTZType):
            return _with_values(item, [(value - _EPOCH) // _MICROSECOND for value in values])
        elif isinstance(data_type, TimestampType):
            return self._widen(item, values)
        return item

    def _widen(self, item: Leaf, values: Sequence[dt.datetime]) -> Node | bool:
        local_times = sorted(value.astimezone(dt.UTC).replace(tzinfo=None) for value in values)
        if local_times[0].date() <= _FIRST_DAY + _MARGIN:
            self.unknown.append(f"{item}: timestamps before {_FIRST_DAY} differ between two calendars")
            return True
        try:
            low, high = local_times[0] - _MARGIN, local_times[-1] + _MARGIN
        except OverflowError:
            self.unknown.append(f"{item}: a day later or earlier is out of range")
            return True
        return And((Compare(item.column, ">=", low), Compare(item.column, "<=", high)))


def _with_values(item: Leaf, values: list[Any]) -> Node:
    return Equal(item.column, values[0]) if len(values) == 1 else In(item.column, tuple(values))


BY_POSITION = "columns are found by their positions, not by their names"
_POSITIONAL = "orc.force.positional.evolution"

# Types of a file that Spark shows as they are stored. Timestamps may be shifted: `adapt_to_orc` widens their
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


def find_column_problem(file: OrcFile, field: SparkField, ignore_case: bool) -> str | None:
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


def read_orc(
    spark: SparkSession,
    paths: Paths,
    where: Column | Predicate | None = None,
    *,
    schema: StructType | str | None = None,
    base_path: str | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, object] | None = None,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    **options: Any,
) -> DataFrame:
    """Read ORC files with Spark, but only those that can hold a matching row.

    The files' statistics and Bloom filters are evaluated before Spark scans anything; the DataFrame is Spark's own scan
    of the remaining files, under the same predicate, so that its tasks skip row groups as well. If a probed filter is
    broken, or the condition is about zero, NaN, or a day before 1582-10-15, its tasks skip nothing: they would lose
    rows. Timestamps are compared with statistics alone: ORC stores wall clocks, and each JVM's time zone decides which
    instants they are.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : as for `spark.read.orc`, or a list of paths. An existing path is never treated as a pattern.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists; None reads everything.
    schema : as for `spark.read.schema`.
    base_path : the folder below which partition folders begin; None for the path itself.
    columns : names of the columns to return; None for all.
    storage_options, probe_on, max_fraction : see `pruned`.
    **options : as for `spark.read.options`, including `mergeSchema`.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `spark.read.orc(path).where(where)`. In case of doubt it is that DataFrame, and the
        logger `parquet_bloom.spark` says why; so it is when most of the files remain.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column does not exist.
    ManagedTableError
        The path is in a Delta, Iceberg or Hudi table: its old files would return removed rows.
    StorageError
        The path does not exist.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.read_orc(spark, "orc_lake", "id = 1401181143").show()  # doctest: +SKIP
    """
    planner = ScanPlanner(probe_on, max_fraction, None, storage_options, False, fresh=True)
    paths = path_list(paths)
    if base_path is not None:
        options["basePath"] = os.fsdecode(base_path)
    for single_path in paths:
        refuse_table(spark, single_path, storage_options)
    frame = open_paths(spark, "orc", paths, schema, options)
    names = resolve_names(frame, columns)
    if where is None:
        return select_columns(frame, names)
    stored = adapt_to_orc(read_condition(frame, where))
    try:
        pruned_frame = _OrcReread(frame, paths, options, misleads=stored.misleads).restrict(
            stored.condition, planner, names
        )
    except CannotPush as doubt:
        log.warning("all files are read: %s", doubt)
        pruned_frame = _disable_pushdown(frame) if stored.misleads else frame
    return select_columns(pruned_frame.where(stored.condition.where), names)


@dataclass
class _OrcReread(Reread):
    """A DataFrame that is known to read some paths of ORC files and nothing else.

    Attributes
    ----------
    misleads : whether Spark's tasks lose rows if the condition is pushed to them.
    """

    misleads: bool = False

    def find_compatibility(self, fields: Mapping[str, SparkField], layout: Layout) -> OrcCompatibility:
        compatibility = OrcCompatibility.of(fields, Rules(ignores_case(self.spark)))
        return OrcCompatibility(
            compatibility.fields, compatibility.rules, file_column_names(self.schema.names, layout.columns)
        )

    def check_settings(self) -> None:
        refuse_settings(self.spark, self.options)

    def restrict(self, condition: Condition, planner: ScanPlanner, names: Sequence[str]) -> DataFrame:
        scan, layout = self.scan(condition, planner)
        report = scan.report
        if not report.selected:
            return self.frame.where(F.lit(False))
        unsafe = scan.untrusted or self.misleads
        if not unsafe and report.selected_files > planner.max_fraction * report.total_files:
            return self.frame
        frame = self.read("orc", list(report.selected), layout, {})
        return _disable_pushdown(frame) if unsafe else frame


def _disable_pushdown(frame: DataFrame) -> DataFrame:
    """Return a DataFrame to whose scans Spark pushes no conditions.

    No option of a reader keeps Spark's tasks from probing the filters of ORC files, and a setting of the session would
    apply to all queries. Spark does not move a condition past a nondeterministic one; this one is always true.
    """
    return frame.where(F.spark_partition_id() >= 0)
