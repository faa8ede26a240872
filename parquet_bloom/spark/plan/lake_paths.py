"""Paths and column names of callers, resolved by Spark."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...errors import ManagedTableError, ParquetBloomError, StorageError, UnknownColumnError
from ...file.metadata_cache import distinct
from ...storage import list_files, managed_table, stat_files
from ..condition.condition import analyze
from ..session.hadoop import resolve_storage
from ..session.jvm import JavaObject, Jvm, class_name, is_classic
from ..session.session_settings import (
    CannotPush,
    fold_case,
    ignores_case,
    is_pattern,
    listed_path,
    local_path,
    log,
    to_reader_path,
)
from .catalyst_plan import make_dataframe

_MAX_OPENED = 8  # for each session: their files' names and states stay in memory
_MAX_FILES = 20_000
_SUMMARIES = ("_metadata", "_common_metadata")  # hidden files, in any folder, that Spark reads the schema from
_HADOOP = ("fs.defaultFS", "fs.file.impl", "mapreduce.input.pathFilter.class")  # may be set while a session runs


class _Opened(NamedTuple):
    """A relation that Spark has made of paths, and the states of their files just before."""

    state: Hashable
    relation: JavaObject


_OPENED: WeakKeyDictionary[SparkSession, OrderedDict[Hashable, _Opened]] = WeakKeyDictionary()
_lock = threading.Lock()


def _read_state(paths: Sequence[str]) -> Hashable:
    """Return the files below local paths and their states; None if a change of them might not show, or of others."""
    locations = [local_path(path) for path in paths]
    is_plain = all(os.path.isabs(path) or path.startswith("file:/") for path in paths)  # wherever Python and JVM run
    if None in locations or not is_plain or any(map(is_pattern, paths)):
        return None
    try:
        files = list_files([PurePath(location) for location in locations if location is not None])
    except ParquetBloomError:
        return None  # Spark says what is wrong
    if len(files) > _MAX_FILES:
        return None
    own_folders = {PurePath(os.path.dirname(file)) for file in files}
    folders = own_folders.union(*(folder.parents for folder in own_folders))
    summaries = [str(folder / name) for folder in sorted(folders) for name in _SUMMARIES]
    sources = [*stat_files(files), *filter(None, stat_files(summaries))]
    if any(source is None or not distinct(source.identity) for source in sources):
        return None
    return tuple((source.name, source.identity) for source in sources if source is not None)


def _open_again(
    spark: SparkSession, key: Hashable, paths: Sequence[str], read_frame: Callable[[], DataFrame]
) -> DataFrame:
    """Return what `read_frame` returns; not called if Spark would list the same files and find the same schema."""
    state, jvm = _read_state(paths), Jvm(spark)
    if state is None:
        return read_frame()
    settings = spark._jsparkSession.sessionState().conf().getAllConfs().toString()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    # Settings may have secrets among them.
    digest = hashlib.sha256(settings.encode("utf-8", "surrogatepass")).digest()
    key = (key, tuple(paths), digest, *(hadoop.get(name) for name in _HADOOP))
    with _lock:
        opened = _OPENED.setdefault(spark, OrderedDict()).get(key)
    if opened is not None and opened.state == state:
        return make_dataframe(jvm, opened.relation.newInstance())  # with columns of its own, as if opened anew
    frame = read_frame()
    relation = frame._jdf.queryExecution().analyzed()
    if _reads(jvm, relation, paths):
        with _lock:
            entries = _OPENED[spark]
            entries.pop(key, None)
            entries[key] = _Opened(state, relation)
            while len(entries) > _MAX_OPENED:
                entries.popitem(last=False)
    return frame


def _reads(jvm: Jvm, node: JavaObject, paths: Sequence[str]) -> bool:
    """Return True if a plan is nothing but a relation over the files of local paths that Spark has listed itself."""
    if class_name(node) != "LogicalRelation" or class_name(node.relation()) != "HadoopFsRelation":
        return False
    location = node.relation().location()
    if class_name(location) != "InMemoryFileIndex":
        return False
    uris = jvm.texts(location.rootPaths().map(jvm.method("org.apache.hadoop.fs.Path", "toUri")))
    return sorted(map(listed_path, uris)) == sorted(filter(None, map(local_path, paths)))


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

    def read_frame() -> DataFrame:
        reader = spark.read.options(**options)
        reader = reader if schema is None else reader.schema(schema)
        return analyze(reader.format(kind).load(list(map(to_reader_path, paths))))

    try:
        if not is_classic(spark):
            return read_frame()
        given = schema.json() if isinstance(schema, StructType) else schema
        key = kind, given, tuple(sorted((name, repr(value)) for name, value in options.items()))
        return _open_again(spark, key, paths, read_frame)
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
