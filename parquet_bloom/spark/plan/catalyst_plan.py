"""Scans of Parquet files in the plans of classic sessions, and the same plans over fewer files."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ..session.jvm import DATASOURCES, EXPRESSIONS, JavaObject, Jvm, class_name, copy_with, find_defaults, iter_elements
from ..session.session_settings import CannotPush

_PARQUET = f"{DATASOURCES}.parquet.ParquetFileFormat"
_DIRECTORY = f"{DATASOURCES}.PartitionDirectory"
_STATUS = f"{DATASOURCES}.FileStatusWithMetadata"
_LISTINGS = frozenset({"InMemoryFileIndex", "CatalogFileIndex"})
OUR_INDEXES: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Our file indexes (`classic_session.BloomFileIndex`) by the results of their `toString`."""

_MAX_LISTINGS = 8  # per JVM, kept for their files' names
_listings_lock = threading.Lock()


class CatalystListing:
    """The files that Spark lists for a scan, in directories of one set of partition values each.

    Parameters
    ----------
    jvm : the session's JVM.
    directories : Scala's Seq of `PartitionDirectory`.
    previous : an earlier listing. If it has the same files, their names are copied from it: to transfer 2,000 names
        from the JVM takes 50 ms, to compare them there less than 1 ms.

    Attributes
    ----------
    uris : URIs of all files, percent-encoded as Spark writes them.
    java_paths : Scala's Seq of their Hadoop paths.
    """

    def __init__(self, jvm: Jvm, directories: JavaObject, previous: CatalystListing | None = None):
        self._jvm = jvm
        self._directories = directories
        files = directories.flatMap(jvm.method(_DIRECTORY, "files"))
        self.java_paths = files.map(jvm.method(_STATUS, "getPath"))
        self._files = files
        if previous is not None and self.java_paths.equals(previous.java_paths):
            self.uris: list[str] = previous.uris
            return
        self.uris = jvm.texts(self.java_paths.map(jvm.method("org.apache.hadoop.fs.Path", "toUri")))

    def _read_numbers(self, class_name: str, name: str) -> list[int]:
        return list(map(int, self._jvm.texts(self._files.map(self._jvm.method(class_name, name)))))

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all files, as Spark shows them."""
        return self._jvm.texts(self.java_paths)

    @cached_property
    def states(self) -> list[tuple[int, int]]:
        """Size and modification time (ms since 1970) of each file."""
        sizes, times = self._read_numbers(_STATUS, "getLen"), self._read_numbers(_STATUS, "getModificationTime")
        return list(zip(sizes, times, strict=True))

    def select(self, positions: Sequence[int]) -> list[JavaObject]:
        """Return the directories with some of the files only; directories without any are left out.

        Parameters
        ----------
        positions : positions in `uris`, in ascending order.
        """
        sizes = list(
            map(int, self._jvm.texts(self._directories.map(self._jvm.method(_DIRECTORY, "files")).map(self._size)))
        )
        directories, start, remaining = [], 0, iter(positions)
        position = next(remaining, None)
        for i, size in enumerate(sizes):
            selected = []
            while position is not None and position < start + size:
                selected.append(position - start)
                position = next(remaining, None)
            if selected:
                directory = self._directories.apply(i)
                if len(selected) < size:
                    files = directory.files()
                    directory = copy_with(directory, directory.values(), self._jvm.seq(map(files.apply, selected)))
                directories.append(directory)
            start += size
        return directories

    @property
    def _size(self) -> JavaObject:
        return self._jvm.method("scala.collection.SeqOps", "size")


def find_listing(jvm: Jvm, location: JavaObject, directories: JavaObject) -> CatalystListing:
    """Make a listing of a location's directories; for a location that was listed before, names are reused."""
    roots = location.rootPaths()
    key = roots.size(), roots.hashCode()
    with _listings_lock:
        previous = jvm.listings.get(key)
    listing = CatalystListing(jvm, directories, previous)
    with _listings_lock:
        jvm.listings.pop(key, None)
        jvm.listings[key] = listing
        while len(jvm.listings) > _MAX_LISTINGS:
            del jvm.listings[next(iter(jvm.listings))]
    return listing


def read_file_schema(relation: JavaObject) -> StructType:
    """Return the schema that the files of a relation are read with."""
    return StructType.fromJson(json.loads(relation.dataSchema().json()))


def merge_options(relation: JavaObject, options: Mapping[str, str]) -> JavaObject:
    """Merge options into those of a relation, as Scala's Map."""
    merged = relation.options()
    for name, value in options.items():
        merged = merged.updated(name, value)
    return merged


def replace_index(node: JavaObject, index: JavaObject, options: Mapping[str, str] | None = None) -> JavaObject:
    """Replace the file index of a relation in an analyzed plan.

    Parameters
    ----------
    options : further options of the reader.
    """
    relation = node.relation()
    fields = (relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), relation.fileFormat())
    merged = merge_options(relation, options or {})
    return copy_with(node, relation.copy(index, *fields, merged, relation.sparkSession()))


def inline_tables(jvm: Jvm, frame: DataFrame) -> DataFrame:
    """Inline the common table expressions of a DataFrame, as Spark's optimizer does.

    Each use then has its own conditions, also those within subqueries.

    Raises
    ------
    CannotPush
        Spark computes one of them once, for all of its uses.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    if "WithCTE" not in jvm.list_nodes(analyzed)[1]:
        return frame
    name = "org.apache.spark.sql.catalyst.optimizer.InlineCTE"
    defaults = find_defaults(jvm, name)
    inlined = jvm.package(name)(*(defaults[i]() for i in sorted(defaults))).apply(analyzed)
    if "WithCTE" in jvm.list_nodes(inlined)[1]:
        raise CannotPush("a common table expression that is used more than once could not be inlined")
    return make_dataframe(jvm, inlined)


def replace_relations(jvm: Jvm, frame: DataFrame, new: Sequence[tuple[JavaObject, JavaObject]]) -> DataFrame:
    """Replace relations in the plan of a DataFrame by other nodes, given as pairs (relation, node)."""
    replacements = {_find_ids(jvm, old): node for old, node in new}

    def rebuild(node: JavaObject) -> JavaObject:
        if is_parquet(node):
            return replacements.get(_find_ids(jvm, node), node)
        children = list(iter_elements(node.children()))
        new_children = [rebuild(child) for child in children]
        if all(child is new_child for child, new_child in zip(children, new_children, strict=True)):
            return node
        return node.withNewChildren(jvm.seq(new_children))

    plan = rebuild(frame._jdf.queryExecution().analyzed())
    return make_dataframe(jvm, plan)


def make_dataframe(jvm: Jvm, plan: JavaObject) -> DataFrame:
    """Make a DataFrame from an analyzed plan."""
    return DataFrame(jvm.package("org.apache.spark.sql.classic.Dataset").ofRows(jvm.session, plan), jvm.spark)


def find_relations(jvm: Jvm, frame: DataFrame) -> list[JavaObject]:
    """Find the relations over Parquet files in the analyzed plan of a DataFrame."""
    return _select_parquet(*jvm.list_nodes(frame._jdf.queryExecution().analyzed()))


def _select_parquet(nodes: JavaObject, kinds: Sequence[str]) -> list[JavaObject]:
    """Return the relations over Parquet files among nodes, given with the names of their classes."""
    relations = [nodes.apply(i) for i, kind in enumerate(kinds) if kind == "LogicalRelation"]
    return [relation for relation in relations if is_parquet(relation)]


def is_parquet(node: JavaObject) -> bool:
    """Return True if a node is a relation over Parquet files."""
    if class_name(node) != "LogicalRelation" or node.isStreaming():
        return False
    relation = node.relation()
    return class_name(relation) == "HadoopFsRelation" and relation.fileFormat().getClass().getName() == _PARQUET


def find_spark_index(relation: JavaObject) -> JavaObject:
    """Return Spark's own index of a relation's files, also if one of our indexes wraps it.

    Raises
    ------
    CannotPush
        The index does not list plain files.
    """
    location = relation.location()
    kind = class_name(location)
    ours = OUR_INDEXES.get(location.toString()) if kind.startswith("$Proxy") else None
    if ours is not None:
        return ours.original
    if kind == "MetadataLogFileIndex":
        raise CannotPush("the files belong to a streaming sink, which lists them in its own log")
    if kind not in _LISTINGS:
        raise CannotPush(f"the file index {kind} is not supported")
    return location


def _find_ids(jvm: Jvm, node: JavaObject) -> frozenset[str]:
    """Return the expression ids of a relation's columns, which are unique in a plan."""
    ids = node.output().map(jvm.method(f"{EXPRESSIONS}.NamedExpression", "exprId"))
    return frozenset(jvm.texts(ids))
