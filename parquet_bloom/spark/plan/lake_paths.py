"""Paths and column names of callers, resolved by Spark."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...errors import ManagedTableError, StorageError, UnknownColumnError
from ...file.metadata_cache import SETTLED_NS
from ...storage import managed_table
from ..condition.condition import analyze
from ..session.hadoop import resolve_storage
from ..session.jvm import Jvm, class_name, is_classic
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

MAX_ENTRIES = 20_000
"""More take longer than what knowing them saves, and memory."""


class TreeState(NamedTuple):
    """The files and folders below a path at one time; equal states are of a tree in which nothing has changed.

    Attributes
    ----------
    entries : what identifies each of them, with its size and times.
    newest_ns : latest time of a change among them; one within the same tick of the clock would not show.
    """

    entries: Hashable
    newest_ns: int


def read_tree_state(path: str, max_entries: int = MAX_ENTRIES) -> TreeState | None:
    """Read the state of a file or folder.

    Hidden files count, too.

    Returns
    -------
    TreeState
        None if it cannot be read, has more entries, or has links or other special files in it, whose targets would have
        states of their own.
    """
    root = os.path.realpath(path)
    newest = 0
    try:
        status = os.lstat(root)
        entries: list[tuple[str | int, ...]] = [(root, *_identify(status))]
        newest = max(status.st_mtime_ns, status.st_ctime_ns)
        folders = [root] if stat.S_ISDIR(status.st_mode) else []
        while folders:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(entry.path)
                    elif not stat.S_ISREG(status.st_mode):
                        return None
                    if len(entries) >= max_entries:
                        return None
                    newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
                    entries.append((entry.path, *_identify(status)))
    except OSError:
        return None
    return TreeState(tuple(entries), newest)


def _identify(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_mode,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


_MAX_KNOWN = 8  # for each session: their files' names and states stay in memory
_HADOOP = ("fs.defaultFS", "fs.file.impl", "mapreduce.input.pathFilter.class")  # may be set while a session runs


class _Known(NamedTuple):
    """A relation that Spark has made of paths, and the states of these just before."""

    states: tuple[TreeState, ...]
    relation: Any


_KNOWN: WeakKeyDictionary[SparkSession, OrderedDict[Hashable, _Known]] = WeakKeyDictionary()
_lock = threading.Lock()


def open_known(
    spark: SparkSession,
    kind: str,
    paths: Sequence[str],
    schema: StructType | str | None,
    options: Mapping[str, Any],
    open_paths: Callable[[], DataFrame],
) -> DataFrame:
    """Return what `open_paths` returns, without calling it if Spark would list the same files and find the same schema.

    Parameters
    ----------
    kind, paths, schema, options : all that the DataFrame depends on, apart from the session's settings.
    open_paths : has Spark open them.
    """
    locations = [local_path(path) for path in paths]
    if not is_classic(spark) or not all(locations) or not all(map(_is_plain, paths)):
        return open_paths()
    states = tuple(state for state in map(read_tree_state, filter(None, locations)) if state is not None)
    # A change in the same tick of the clock as the last one would not show.
    if len(states) < len(paths) or max(state.newest_ns for state in states) > time.time_ns() - SETTLED_NS:
        return open_paths()
    jvm = Jvm(spark)
    try:
        key = _make_key(spark, kind, paths, schema, options)
        with _lock:
            known = _KNOWN.setdefault(spark, OrderedDict()).get(key)
        if known is not None and known.states == states:
            return make_dataframe(jvm, known.relation.newInstance())  # with columns of its own, as if opened anew
    except (Py4JError, PySparkException):
        return open_paths()
    frame = open_paths()
    try:
        relation = frame._jdf.queryExecution().analyzed()
        if _reads(jvm, relation, sorted(filter(None, locations))):
            _remember(spark, key, _Known(states, relation))
    except (CannotPush, Py4JError, PySparkException, ValueError):
        pass  # it only saves time
    return frame


def _remember(spark: SparkSession, key: Hashable, known: _Known) -> None:
    with _lock:
        entries = _KNOWN.setdefault(spark, OrderedDict())
        entries.pop(key, None)
        entries[key] = known
        while len(entries) > _MAX_KNOWN:
            entries.popitem(last=False)


def _is_plain(path: str) -> bool:
    """Return True if a path means one file or folder, whatever the folder is that Python or the JVM works in."""
    return not is_pattern(path) and (os.path.isabs(path) or path.startswith("file:/"))


def _make_key(
    spark: SparkSession, kind: str, paths: Sequence[str], schema: StructType | str | None, options: Mapping[str, Any]
) -> Hashable:
    settings = spark._jsparkSession.sessionState().conf().getAllConfs().toString()
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    return (
        kind,
        tuple(paths),
        schema.json() if isinstance(schema, StructType) else schema,
        tuple(sorted((name, repr(value)) for name, value in options.items())),
        hashlib.sha256(settings.encode("utf-8", "surrogatepass")).digest(),  # they may have secrets among them
        tuple(hadoop.get(name) for name in _HADOOP),
    )


def _reads(jvm: Jvm, node: Any, locations: list[str]) -> bool:
    """Return True if a plan is nothing but a relation over the files of local paths that Spark has listed itself."""
    if class_name(node) != "LogicalRelation" or node.isStreaming() or class_name(node.relation()) != "HadoopFsRelation":
        return False
    location = node.relation().location()
    if class_name(location) != "InMemoryFileIndex":
        return False
    uris = jvm.texts(location.rootPaths().map(jvm.method("org.apache.hadoop.fs.Path", "toUri")))
    return sorted(map(listed_path, uris)) == locations


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
