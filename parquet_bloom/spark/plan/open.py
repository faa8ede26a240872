"""Paths and column names of callers, resolved by Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...errors import ManagedTableError, StorageError, UnknownColumnError
from ...storage import managed_table
from ..condition.condition import analyze
from ..session.fallback import CannotPush, log
from ..session.fields import fold_case
from ..session.paths import local_path, to_reader_path
from ..session.settings import ignores_case
from ..session.storage import resolve_storage
from .known_paths import open_known


def open_paths(
    spark: SparkSession,
    kind: Literal["parquet", "orc"],
    paths: Sequence[str],
    schema: StructType | str | None,
    options: Mapping[str, Any],
) -> DataFrame:
    """Open paths with Spark, without any pruning.

    Parameters
    ----------
    kind : format of the files.

    Raises
    ------
    StorageError
        There is no such path.
    """

    def load() -> DataFrame:
        reader = spark.read.options(**options)
        reader = reader if schema is None else reader.schema(schema)
        return analyze(reader.format(kind).load(list(map(to_reader_path, paths))))

    try:
        return open_known(spark, kind, paths, schema, options, load)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise StorageError("there is no such file or folder", path=", ".join(paths)) from error


def refuse_table(spark: SparkSession, path: str, storage_options: Mapping[str, Any] | None) -> None:
    """Refuse folders of managed tables, which have obsolete files; Spark itself reads the log of a streaming sink.

    Raises
    ------
    ManagedTableError
        The path is in a Delta, Iceberg or Hudi table.
    """
    local = local_path(path)
    if local is not None and os.path.isfile(local):
        return  # callers that name files know which are live
    try:
        location, filesystem = (local, None) if local is not None else _locate_in_store(spark, path, storage_options)
        reason = managed_table(location, filesystem)
    except (CannotPush, StorageError) as error:
        log.info("%s: cannot determine whether it is a table: %s", path, error)
        return
    if reason is not None and "_spark_metadata" not in reason:
        raise ManagedTableError(f"{reason}: its old files hold removed rows; read it as a table", path=path)


def _locate_in_store(spark: SparkSession, path: str, storage_options: Mapping[str, Any] | None) -> tuple[str, Any]:
    (location,), filesystem = resolve_storage(spark, [quote(path, safe="/:@")], storage_options)
    return location, filesystem


def resolve_names(frame: DataFrame, columns: Sequence[str] | None) -> list[str]:
    """Return the columns of the result, each as the schema spells it; None selects all.

    Raises
    ------
    UnknownColumnError
        There is no such column, or the name matches several.
    """
    if columns is None:
        return list(frame.columns)
    ignore_case = ignores_case(frame.sparkSession)
    names = []
    for name in [columns] if isinstance(columns, str) else columns:
        matches = [column for column in frame.columns if fold_case(column, ignore_case) == fold_case(name, ignore_case)]
        if len(matches) != 1:
            raise UnknownColumnError("no such column" if not matches else "the name matches several", column=name)
        names += matches
    return names
