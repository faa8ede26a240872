"""Scans of Parquet files in the plans of classic sessions, and the same plans over fewer files."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ..session.jvm import DATASOURCES, EXPRESSIONS, Jvm, class_name, copy_with, find_defaults, iter_elements
from ..session.session_settings import CannotPush

_PARQUET = f"{DATASOURCES}.parquet.ParquetFileFormat"
_DIRECTORY = f"{DATASOURCES}.PartitionDirectory"
_STATUS = f"{DATASOURCES}.FileStatusWithMetadata"
_LISTINGS = frozenset({"InMemoryFileIndex", "CatalogFileIndex"})
OUR_INDEXES: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Our file indexes (`install.BloomFileIndex`) by the results of their `toString`."""

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
    """

    def __init__(self, jvm: Jvm, directories: Any, previous: CatalystListing | None = None):
        self._jvm = jvm
        self._directories = directories
        files = directories.flatMap(jvm.method(_DIRECTORY, "files"))
        self._paths = files.map(jvm.method(_STATUS, "getPath"))
        self._files = files
        if previous is not None and self._paths.equals(previous._paths):
            self.uris: list[str] = previous.uris
            return
        try:
            self.uris = jvm.texts(self._paths.map(jvm.method("org.apache.hadoop.fs.Path", "toUri")))
        except ValueError as error:
            raise CannotPush(f"the names of the files cannot be read: {error}") from error

    def _read_numbers(self, class_name: str, name: str) -> list[int]:
        return list(map(int, self._jvm.texts(self._files.map(self._jvm.method(class_name, name)))))

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all files, as Spark shows them."""
        return self._jvm.texts(self._paths)

    @cached_property
    def states(self) -> list[tuple[int, int]]:
        """Size and modification time (ms since 1970) of each file."""
        sizes, times = self._read_numbers(_STATUS, "getLen"), self._read_numbers(_STATUS, "getModificationTime")
        return list(zip(sizes, times, strict=True))

    def select(self, positions: Sequence[int]) -> list[Any]:
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
    def _size(self) -> Any:
        return self._jvm.method("scala.collection.SeqOps", "size")


def find_listing(jvm: Jvm, location: Any, directories: Any) -> CatalystListing:
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


def read_file_schema(relation: Any) -> StructType:
    """Return the schema that the files of a relation are read with."""
    return StructType.fromJson(json.loads(relation.dataSchema().json()))


def merge_options(relation: Any, options: Mapping[str, str]) -> Any:
    """Merge options into those of a relation, as Scala's Map."""
    merged = relation.options()
    for name, value in options.items():
        merged = merged.updated(name, value)
    return merged


def replace_index(node: Any, index: Any, options: Mapping[str, str] | None = None) -> Any:
    """Replace the file index of a relation in an analyzed plan.

    Parameters
    ----------
    options : further options of the reader.
    """
    relation = node.relation()
    fields = (relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), relation.fileFormat())
    merged = merge_options(relation, options or {})
    return copy_with(node, relation.copy(index, *fields, merged, relation.sparkSession()))


@dataclass
class ParquetScan:
    """One scan of Parquet files in a plan.

    Attributes
    ----------
    logical : its relation in the analyzed plan.
    physical : its scan in the physical plan, with the filters that Spark pushes down to it.
    """

    jvm: Jvm
    logical: Any
    physical: Any

    @cached_property
    def relation(self) -> Any:
        """Spark's HadoopFsRelation."""
        return self.logical.relation()

    @cached_property
    def schema(self) -> StructType:
        """The schema that the files are read with."""
        return read_file_schema(self.relation)

    @cached_property
    def options(self) -> dict[str, str]:
        """Options of the reader."""
        return self.jvm.mapping(self.relation.options())

    @cached_property
    def filters(self) -> Any:
        """The filters that the rows must pass: Scala's Seq of expressions over the files' columns."""
        return self.physical.dataFilters()

    def list_files(self) -> CatalystListing:
        """List the files in the partitions that the partition filters select."""
        location = find_spark_index(self.relation)
        has_subquery = self.jvm.package(f"{EXPRESSIONS}.SubqueryExpression").hasSubquery
        partition_filters = [item for item in iter_elements(self.physical.partitionFilters()) if not has_subquery(item)]
        return find_listing(self.jvm, location, location.listFiles(self.jvm.seq(partition_filters), self.jvm.nil))

    def restrict(self, listing: CatalystListing, selected: Sequence[int], options: Mapping[str, str]) -> Any:
        """Return the relation of the analyzed plan over some of the files.

        Parameters
        ----------
        selected : positions in the listing, in ascending order.
        options : further options of the reader.

        Raises
        ------
        CannotPush
            Spark does not accept the files.
        """
        if not selected:
            return without_rows(self.jvm, self.logical)
        index = self.make_index(listing.select(selected))
        uris = CatalystListing(self.jvm, index.listFiles(self.jvm.nil, self.jvm.nil)).uris
        if sorted(uris) != sorted(listing.uris[i] for i in selected):
            raise CannotPush("Spark lists other files than it was given")
        return with_unread_source(self.jvm, replace_index(self.logical, index, options), self.logical)

    def make_index(self, directories: list[Any], partitioned: bool = True) -> Any:
        """Make Spark's own file index over given files, as if it had listed them.

        Each file is a root of it: Spark finds two indexes equal if their roots are, and plans over different files
        must never be equal.
        """
        jvm = self.jvm
        cache = jvm.package(f"{DATASOURCES}.FileStatusCache").getOrCreate(jvm.session)
        status = jvm.method(_STATUS, "fileStatus")
        roots, partitions = [], []
        for directory in directories:
            folders: dict[str, Any] = {}
            for item in iter_elements(directory.files().map(status)):
                path = item.getPath()
                folder = path.getParent()
                folders.setdefault(folder.toString(), folder)
                cache.putLeafFiles(path, jvm.array("org.apache.hadoop.fs.FileStatus", [item]))
                roots.append(path)
            partition_path = jvm.package(f"{DATASOURCES}.PartitionPath")
            partitions += [partition_path(directory.values(), folder) for folder in folders.values()]
        spec = jvm.package(f"{DATASOURCES}.PartitionSpec")(self.relation.partitionSchema(), jvm.seq(partitions))
        partition_spec = jvm.some(spec) if partitioned and self.relation.partitionSchema().size() else jvm.none()
        index = jvm.package(f"{DATASOURCES}.InMemoryFileIndex")
        return index(
            jvm.session, jvm.seq(roots), self.relation.options(), jvm.none(), cache, partition_spec, jvm.none()
        )


def with_unread_source(jvm: Jvm, node: Any, relation: Any) -> Any:
    """Return a node that replaces a relation, joined with that relation, of which no rows are read.

    Spark refuses to overwrite a table, or a folder, only if it finds it in the plan that reads it. The join is an anti
    join with no rows, which Spark's optimizer removes.
    """
    catalyst = "org.apache.spark.sql.catalyst"
    nothing = without_rows(jvm, relation.newInstance())
    kind = getattr(jvm.package(f"{catalyst}.plans.LeftAnti$"), "MODULE$")
    hint = jvm.package(f"{catalyst}.plans.logical.JoinHint").NONE()
    return jvm.package(f"{catalyst}.plans.logical.Join")(node, nothing, kind, jvm.none(), hint)


def without_rows(jvm: Jvm, node: Any) -> Any:
    """Return a node with a filter that no row passes."""
    false = jvm.package(f"{EXPRESSIONS}.Literal").FalseLiteral()
    return jvm.package("org.apache.spark.sql.catalyst.plans.logical.Filter")(false, node)


def inline_tables(jvm: Jvm, frame: DataFrame) -> DataFrame:
    """Inline the common table expressions of a DataFrame, as Spark's optimizer does.

    Each use then has its own conditions, also those within subqueries.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    if "WithCTE" not in jvm.list_nodes(analyzed)[1]:
        return frame
    name = "org.apache.spark.sql.catalyst.optimizer.InlineCTE"
    defaults = find_defaults(jvm, name)
    rule = jvm.package(name)(*(defaults[i]() for i in sorted(defaults)))
    return make_dataframe(jvm, rule.apply(analyzed))


def find_scans(jvm: Jvm, frame: DataFrame) -> list[ParquetScan]:
    """Find the scans in a DataFrame's plan that can be restricted to fewer files.

    Each is one relation of the analyzed plan that the physical plan scans exactly once: the DataFrame then needs no
    other rows of the relation than those that pass the filters of this scan.

    Parameters
    ----------
    frame : a DataFrame from `inline_tables`.

    Raises
    ------
    CannotPush
        No scan of files can be restricted to fewer files.
    """
    execution = frame._jdf.queryExecution()
    nodes, kinds = jvm.list_nodes(execution.analyzed())
    if "WithCTE" in kinds:
        raise CannotPush("a common table expression that is used more than once could not be inlined")
    logical = _select_parquet(nodes, kinds)
    if not logical:
        raise CannotPush("nothing in the plan reads Parquet files that Spark lists itself")
    physical = jvm.find_nodes(execution.sparkPlan(), "FileSourceScanExec")
    parquet_scans = []
    relation_ids = [_find_ids(jvm, node) for node in logical]
    scan_ids = [_find_ids(jvm, node) for node in physical]
    for relation, ids in zip(logical, relation_ids, strict=True):
        scans = [scan for scan, other in zip(physical, scan_ids, strict=True) if other & ids]
        is_unique = sum(bool(other & ids) for other in relation_ids) == 1
        if is_unique and len(scans) == 1:
            parquet_scans.append(ParquetScan(jvm, relation, scans[0]))
    if physical and not parquet_scans:
        raise CannotPush("no scan in the plan belongs to exactly one relation")
    return parquet_scans


def replace_relations(jvm: Jvm, frame: DataFrame, new: Sequence[tuple[Any, Any]]) -> DataFrame:
    """Replace relations in the plan of a DataFrame by other nodes, given as pairs (relation, node)."""
    replacements = {_find_ids(jvm, old): node for old, node in new}

    def rebuild(node: Any) -> Any:
        if is_parquet(node):
            return replacements.get(_find_ids(jvm, node), node)
        children = list(iter_elements(node.children()))
        new_children = [rebuild(child) for child in children]
        if all(child is new_child for child, new_child in zip(children, new_children, strict=True)):
            return node
        return node.withNewChildren(jvm.seq(new_children))

    plan = rebuild(frame._jdf.queryExecution().analyzed())
    return make_dataframe(jvm, plan)


def make_dataframe(jvm: Jvm, plan: Any) -> DataFrame:
    """Make a DataFrame from an analyzed plan."""
    return DataFrame(jvm.package("org.apache.spark.sql.classic.Dataset").ofRows(jvm.session, plan), jvm.spark)


def find_relations(jvm: Jvm, frame: DataFrame) -> list[Any]:
    """Find the relations over Parquet files in the analyzed plan of a DataFrame."""
    return _select_parquet(*jvm.list_nodes(frame._jdf.queryExecution().analyzed()))


def _select_parquet(nodes: Any, kinds: Sequence[str]) -> list[Any]:
    """Return the relations over Parquet files among nodes, given with the names of their classes."""
    relations = [nodes.apply(i) for i, kind in enumerate(kinds) if kind == "LogicalRelation"]
    return [relation for relation in relations if is_parquet(relation)]


def is_parquet(node: Any) -> bool:
    """Return True if a node is a relation over Parquet files."""
    if class_name(node) != "LogicalRelation" or node.isStreaming():
        return False
    relation = node.relation()
    return class_name(relation) == "HadoopFsRelation" and relation.fileFormat().getClass().getName() == _PARQUET


def find_spark_index(relation: Any) -> Any:
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


def _find_ids(jvm: Jvm, node: Any) -> frozenset[str]:
    """Return the expression ids of a relation's columns, which are unique in a plan."""
    ids = node.output().map(jvm.method(f"{EXPRESSIONS}.NamedExpression", "exprId"))
    return frozenset(jvm.texts(ids))
