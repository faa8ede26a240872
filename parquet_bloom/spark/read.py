"""Reading with Spark: the files, or exactly the row groups, that can hold a match."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..errors import ManagedTableError, ParquetBloomError, StorageError, UnknownColumnError
from ..predicate import tree
from ..storage import managed_table
from .condition import Condition, read_condition
from .doubt import Doubt, log
from .fields import folded, quoted
from .files import Rules
from .layout import Layout, find_layout
from .paths import file_uri, for_reader, listed_files, local_path, path_list
from .row_groups import plan_pieces, read_pieces
from .scan import Scan, scan_files
from .settings import ignores_case, is_set, setting

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_listing_lock = threading.Lock()


def read_parquet(
    spark: SparkSession,
    path: Any,
    where: Any = None,
    *,
    row_groups: bool = False,
    columns: Sequence[str] | None = None,
    schema: StructType | str | None = None,
    **options: Any,
) -> DataFrame:
    """Read Parquet files with Spark, but only those that can hold a row that matches.

    The files' statistics and Bloom filters are asked on the driver, before Spark plans anything; the DataFrame is
    Spark's own scan of the files that are left, under the same predicate, so that its tasks skip row groups as well.

    Parameters
    ----------
    spark : the session, classic or Connect.
    path : what `spark.read.parquet` takes, or a list of that. A path that exists is never taken for a pattern.
    where : SQL text as in `DataFrame.where`, or pyarrow's `filters=` lists; None reads everything.
    row_groups : read exactly the row groups that can hold a match, through pyarrow: the way to skip inside a file where
        Spark itself cannot, as on INT96 and timestamp_ntz columns. Such a DataFrame knows no `_metadata` column.
    columns : names of the columns wanted; None for all.
    schema : as for `spark.read.schema`.
    **options : as for `spark.read.options`.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `spark.read.parquet(path).where(where)`. Where anything is in doubt, it is that
        very DataFrame, and the logger `parquet_bloom.spark` says why; it also is when most of the files are left.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column is named that is not there.
    ManagedTableError
        The path lies in a Delta, Iceberg or Hudi table: its old files would return removed rows.
    StorageError
        There is no such path.
    """
    reading = _Reading(spark, path_list(path), schema, options)
    names = reading.names(columns)
    if where is None:
        return _only(reading.frame, names)
    condition = read_condition(reading.frame, where)
    try:
        found = reading.pruned(condition, row_groups, names)
    except Doubt as doubt:
        log.warning("all files are read: %s", doubt)
        found = reading.frame
    return _only(found.where(condition.where), names)


def _only(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    return frame if frame.columns == list(names) else frame.select(*map(quoted, names))


class _Reading:
    """One call: what Spark makes of the paths, and how to read some of the files again in the same way."""

    def __init__(self, spark: SparkSession, paths: list[str], schema: StructType | str | None, options: dict[str, Any]):
        self.spark = spark
        self.paths = paths
        self.options = {name: str(value) if not isinstance(value, bool) else value for name, value in options.items()}
        self.in_sink = any(self._refuse_table(path) for path in paths)
        reader = spark.read.options(**self.options)
        try:
            reader = reader if schema is None else reader.schema(schema)
            self.frame = reader.parquet(*map(for_reader, paths))
            self.schema = self.frame.schema
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            raise StorageError("there is no such file or folder", path=", ".join(paths)) from error

    @staticmethod
    def _refuse_table(path: str) -> bool:
        """Refuse tables, whose folders hold dead files; True for a streaming sink, whose log Spark reads by itself."""
        local = local_path(path)
        if local is None or os.path.isfile(local):
            return False  # a caller who names files knows which are live
        reason = managed_table(local)
        if reason is not None and "_spark_metadata" not in reason:
            raise ManagedTableError(f"{reason}: its old files hold removed rows; read it as a table", path=path)
        return reason is not None

    def names(self, columns: Sequence[str] | None) -> list[str]:
        """The columns of the result, each as the schema spells it."""
        if columns is None:
            return list(self.schema.names)
        ignore_case = ignores_case(self.spark)
        found = []
        for name in [columns] if isinstance(columns, str) else columns:
            same = [own for own in self.schema.names if folded(own, ignore_case) == folded(name, ignore_case)]
            if len(same) != 1:
                raise UnknownColumnError("no such column" if not same else "the name stands for several", column=name)
            found += same
        return found

    def pruned(self, condition: Condition, row_groups: bool, names: Sequence[str]) -> DataFrame:
        """A DataFrame with all rows that match, and as few others as can be.

        Raises
        ------
        Doubt
        """
        if condition.node is None:
            raise Doubt(condition.doubt)
        if self.in_sink:
            raise Doubt("the files are a streaming sink's")
        if is_set(self.spark, "spark.sql.parquet.fieldId.read.enabled"):
            raise Doubt("columns are found by their field ids, not by their names")
        rules = Rules.of(self.spark, self.options)
        files = listed_files(self.frame.inputFiles())
        try:
            layout = find_layout(files, self.paths, self.options, self.schema, rules.ignore_case)
            scan = scan_files(files, condition, self.schema, layout, rules)
        except ParquetBloomError as error:
            raise Doubt(str(error)) from error
        log.info("%s: %s", condition.node, scan)
        for file, problem in scan.unreadable.items():
            log.warning("%s is left to Spark: %s", file, problem)
        return self._read(scan, condition, layout, rules, row_groups, names)

    def _read(
        self, scan: Scan, condition: Condition, layout: Layout, rules: Rules, row_groups: bool, names: Sequence[str]
    ) -> DataFrame:
        report = scan.report
        if not report.selected:
            return self.frame.where(F.lit(False))
        if row_groups and not scan.unreadable and 2 * report.selected_row_groups <= report.total_row_groups:
            try:
                return self._row_groups(scan, condition, layout, rules, names)
            except Doubt as doubt:
                log.warning("whole files are read, not row groups: %s", doubt)
        # Spark may only trust filters as far as they can be: of zero and NaN other writers know one form of several.
        trusted = not (scan.untrusted or condition.meets_zero_or_nan)
        if 2 * report.selected_files > report.total_files and trusted:
            return self.frame
        return self._files(list(report.selected), layout, trusted)

    def _files(self, files: Sequence[str], layout: Layout, trusted: bool) -> DataFrame:
        """Spark's scan of some of the files."""
        reader = self.spark.read.schema(self.schema).options(**self.options)
        if layout.base is not None and not any(name.lower() == "basepath" for name in self.options):
            reader = reader.option("basePath", f"file://{layout.base}")
        if not trusted:
            reader = reader.option("parquet.filter.bloom.enabled", "false")
        with _listed_by_driver(self.spark, len(files)):
            frame = _only(reader.parquet(*map(file_uri, files)), self.schema.names)
            same = frame.schema == self.schema
        if not same:
            raise Doubt("Spark makes another schema of some of the files than of all")
        return frame

    def _row_groups(
        self, scan: Scan, condition: Condition, layout: Layout, rules: Rules, names: Sequence[str]
    ) -> DataFrame:
        assert condition.node is not None
        assert condition.fields is not None
        asked = {condition.fields[name].path[0] for name in tree.columns(condition.node)}
        fields = [field for field in self.schema.fields if field.name in asked.union(names)]
        in_files = [field for field in fields if field.name not in layout.columns]
        in_folders = [self.schema[name] for name in layout.columns]
        if not in_files:
            raise Doubt("no column of the files is asked for")
        pieces = plan_pieces(scan.report.selected, dict(layout.values), in_files, rules)
        wanted = [field.name for field in fields]
        return read_pieces(self.spark, pieces, in_files, in_folders, wanted, rules.ignore_case)


@contextmanager
def _listed_by_driver(spark: SparkSession, num_paths: int) -> Iterator[None]:
    """Keep Spark from starting a job to list files that are known; the setting is put back."""
    with _listing_lock:
        before = spark.conf.get(_LISTING, None)
        if num_paths <= int(setting(spark, _LISTING) or 0):
            yield
            return
        spark.conf.set(_LISTING, str(num_paths))
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_LISTING)
            else:
                spark.conf.set(_LISTING, before)
