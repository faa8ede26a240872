"""What a caller names, opened by Spark: paths as a DataFrame, names as columns of it."""

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
from ..condition.condition import analysed
from ..session.fallback import CannotPush, log
from ..session.fields import fold_case
from ..session.paths import for_reader, local_path
from ..session.settings import ignores_case
from ..session.storage import storage_for


def open_paths(
    spark: SparkSession,
    kind: Literal["parquet", "orc"],
    paths: Sequence[str],
    schema: StructType | str | None,
    options: Mapping[str, Any],
) -> DataFrame:
    """What Spark itself makes of the paths.

    Parameters
    ----------
    kind : the files' format.

    Raises
    ------
    StorageError
        There is no such path.
    """
    reader = spark.read.options(**options)
    try:
        reader = reader if schema is None else reader.schema(schema)
        return analysed(reader.format(kind).load(list(map(for_reader, paths))))
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise StorageError("there is no such file or folder", path=", ".join(paths)) from error


def refuse_table(spark: SparkSession, path: str, storage_options: Mapping[str, Any] | None) -> None:
    """Refuse tables, whose folders hold dead files; a streaming sink's log is read by Spark itself.

    Raises
    ------
    ManagedTableError
    """
    local = local_path(path)
    if local is not None and os.path.isfile(local):
        return  # a caller who names files knows which are live
    try:
        found, filesystem = (local, None) if local is not None else _at_store(spark, path, storage_options)
        reason = managed_table(found, filesystem)
    except (CannotPush, StorageError) as error:
        log.info("%s: whether it is a table is not known: %s", path, error)
        return
    if reason is not None and "_spark_metadata" not in reason:
        raise ManagedTableError(f"{reason}: its old files hold removed rows; read it as a table", path=path)


def _at_store(spark: SparkSession, path: str, storage_options: Mapping[str, Any] | None) -> tuple[str, Any]:
    (found,), filesystem = storage_for(spark, [quote(path, safe="/:@")], storage_options)
    return found, filesystem


def resolve_names(frame: DataFrame, columns: Sequence[str] | None) -> list[str]:
    """The columns of the result, each as the schema spells it; None stands for all.

    Raises
    ------
    UnknownColumnError
    """
    if columns is None:
        return list(frame.columns)
    ignore_case = ignores_case(frame.sparkSession)
    found = []
    for name in [columns] if isinstance(columns, str) else columns:
        same = [own for own in frame.columns if fold_case(own, ignore_case) == fold_case(name, ignore_case)]
        if len(same) != 1:
            raise UnknownColumnError("no such column" if not same else "the name stands for several", column=name)
        found += same
    return found
