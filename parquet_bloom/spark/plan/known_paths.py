"""Local paths that Spark has opened before: unless something in them changes, it need not open them again.

It takes some 30 us to list a file, and starts a job to read the schema. Together that is most of the time of a query
that reads one file of thousands.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...file.cache.memory import SETTLED_NS
from ...storage.tree_state import TreeState, read_tree_state
from ..session.fallback import CannotPush
from ..session.jvm import Jvm, class_name, is_classic
from ..session.paths import is_pattern, listed_path, local_path
from .catalyst_plan import make_dataframe

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
