"""Scans of Parquet files in the plans of classic sessions: what is read where, and the same plan over fewer files."""

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

from ..session.fallback import CannotPush
from ..session.jvm import DATASOURCES, EXPRESSIONS, Jvm, class_name, copied, defaults_of, elements, nodes

_PARQUET = f"{DATASOURCES}.parquet.ParquetFileFormat"
_DIRECTORY = f"{DATASOURCES}.PartitionDirectory"
_STATUS = f"{DATASOURCES}.FileStatusWithMetadata"
_LISTINGS = frozenset({"InMemoryFileIndex", "CatalogFileIndex"})
OUR_INDEXES: WeakValueDictionary[str, Any] = (
    WeakValueDictionary()
)  # our indexes by what `toString` gives; see `file_index`


_LISTS = 8  # lists whose names are remembered
_lists_lock = threading.Lock()


class Listing:
    """The files that Spark lists for a scan, in directories of one set of partition values each.

    Parameters
    ----------
    jvm : the session's.
    directories : Scala's Seq of `PartitionDirectory`.
    before : an earlier list. If its files are the same, their names are taken from there: to bring 2,000 names here
        takes 50 ms, to compare them in the JVM less than one.

    Attributes
    ----------
    uris : of all files, as Spark writes them: percent-encoded.
    """

    def __init__(self, jvm: Jvm, directories: Any, before: Listing | None = None):
        self._jvm = jvm
        self._directories = directories
        files = directories.flatMap(jvm.method(_DIRECTORY, "files"))
        self._paths = files.map(jvm.method(_STATUS, "getPath"))
        self._files = files
        if before is not None and self._paths.equals(before._paths):
            self.uris: list[str] = before.uris
            return
        try:
            self.uris = jvm.texts(self._paths.map(jvm.method("org.apache.hadoop.fs.Path", "toUri")))
        except ValueError as error:
            raise CannotPush(f"a file's name cannot be told: {error}") from error

    def _numbers(self, class_name: str, name: str) -> list[int]:
        return list(map(int, self._jvm.texts(self._files.map(self._jvm.method(class_name, name)))))

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all files, as Spark shows them."""
        return self._jvm.texts(self._paths)

    @cached_property
    def states(self) -> list[tuple[int, int]]:
        """Size and modification time (ms since 1970) of each file."""
        return list(zip(self._numbers(_STATUS, "getLen"), self._numbers(_STATUS, "getModificationTime"), strict=True))

    def directories_of(self, kept: Sequence[int]) -> list[Any]:
        """Directories with some of the files only; those without any are left out.

        Parameters
        ----------
        kept : places in `uris`, in ascending order.
        """
        sizes = list(
            map(int, self._jvm.texts(self._directories.map(self._jvm.method(_DIRECTORY, "files")).map(self._size)))
        )
        found, start, wanted = [], 0, iter(kept)
        place = next(wanted, None)
        for number, size in enumerate(sizes):
            inside = []
            while place is not None and place < start + size:
                inside.append(place - start)
                place = next(wanted, None)
            if inside:
                directory = self._directories.apply(number)
                if len(inside) < size:
                    files = directory.files()
                    directory = copied(directory, directory.values(), self._jvm.seq(map(files.apply, inside)))
                found.append(directory)
            start += size
        return found

    @property
    def _size(self) -> Any:
        return self._jvm.method("scala.collection.SeqOps", "size")


def find_listing(jvm: Jvm, location: Any, directories: Any) -> Listing:
    """The list that a location gives; of one that was asked before, the names are known."""
    roots = location.rootPaths()
    key = roots.size(), roots.hashCode()
    with _lists_lock:
        before = jvm.lists.get(key)
    found = Listing(jvm, directories, before)
    with _lists_lock:
        jvm.lists.pop(key, None)
        jvm.lists[key] = found
        while len(jvm.lists) > _LISTS:
            del jvm.lists[next(iter(jvm.lists))]
    return found


def read_file_schema(relation: Any) -> StructType:
    """The columns that a relation's files are read as."""
    return StructType.fromJson(json.loads(relation.dataSchema().json()))


def options_with(relation: Any, options: Mapping[str, str]) -> Any:
    """A relation's options and some more, as Scala's Map."""
    merged = relation.options()
    for name, value in options.items():
        merged = merged.updated(name, value)
    return merged


def replace_index(node: Any, index: Any, options: Mapping[str, str] | None = None) -> Any:
    """A relation of an analysed plan over the files of another index.

    Parameters
    ----------
    options : for the reader, beside those that it has.
    """
    relation = node.relation()
    fields = (relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), relation.fileFormat())
    merged = options_with(relation, options or {})
    return copied(node, relation.copy(index, *fields, merged, relation.sparkSession()))


@dataclass
class ParquetScan:
    """One scan of Parquet files in a plan.

    Attributes
    ----------
    logical : its relation in the analysed plan.
    physical : its scan in the physical plan, with the filters that reach it.
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
        """The columns that the files are read as."""
        return read_file_schema(self.relation)

    @cached_property
    def options(self) -> dict[str, str]:
        """The reader's options."""
        return self.jvm.mapping(self.relation.options())

    @cached_property
    def filters(self) -> Any:
        """What all rows hold that are wanted of it: Scala's Seq of expressions over the files' columns."""
        return self.physical.dataFilters()

    def listing(self) -> Listing:
        """The files in the partitions that are wanted."""
        location = find_spark_index(self.relation)
        has_subquery = self.jvm.package(f"{EXPRESSIONS}.SubqueryExpression").hasSubquery
        of_folders = [item for item in elements(self.physical.partitionFilters()) if not has_subquery(item)]
        return find_listing(self.jvm, location, location.listFiles(self.jvm.seq(of_folders), self.jvm.nil))

    def narrowed(self, listing: Listing, kept: Sequence[int], options: Mapping[str, str]) -> Any:
        """The relation of the analysed plan over some of the files.

        Parameters
        ----------
        kept : places in the listing, in ascending order.
        options : for the reader, beside those that it has.

        Raises
        ------
        Doubt
            Spark does not take them.
        """
        if not kept:
            return no_rows(self.jvm, self.logical)
        index = self.index(listing.directories_of(kept))
        found = Listing(self.jvm, index.listFiles(self.jvm.nil, self.jvm.nil)).uris
        if sorted(found) != sorted(listing.uris[place] for place in kept):
            raise CannotPush("Spark lists other files than those that it was given")
        return beside_source(self.jvm, replace_index(self.logical, index, options), self.logical)

    def index(self, directories: list[Any], partitioned: bool = True) -> Any:
        """Spark's own index of files, told of the files as if it had listed them.

        Each file is a root of it: two indexes of Spark's are equal when their roots are, and plans over different files
        must never be taken for the same.
        """
        jvm = self.jvm
        cache = jvm.package(f"{DATASOURCES}.FileStatusCache").getOrCreate(jvm.session)
        status = jvm.method(_STATUS, "fileStatus")
        roots, partitions = [], []
        for directory in directories:
            folders: dict[str, Any] = {}
            for item in elements(directory.files().map(status)):
                path = item.getPath()
                folder = path.getParent()
                folders.setdefault(folder.toString(), folder)
                cache.putLeafFiles(path, jvm.array("org.apache.hadoop.fs.FileStatus", [item]))
                roots.append(path)
            of_path = jvm.package(f"{DATASOURCES}.PartitionPath")
            partitions += [of_path(directory.values(), folder) for folder in folders.values()]
        spec = jvm.package(f"{DATASOURCES}.PartitionSpec")(self.relation.partitionSchema(), jvm.seq(partitions))
        known = jvm.some(spec) if partitioned and self.relation.partitionSchema().size() else jvm.none()
        index = jvm.package(f"{DATASOURCES}.InMemoryFileIndex")
        return index(jvm.session, jvm.seq(roots), self.relation.options(), jvm.none(), cache, known, jvm.none())


def beside_source(jvm: Jvm, node: Any, relation: Any) -> Any:
    """A node that stands in the place of a relation, with this relation in the plan, of which nothing is read.

    Spark refuses to overwrite a table, or a folder, that a plan reads, as long as it finds it there. What stands beside
    the node is an anti join with no rows, which Spark's optimizer takes away.
    """
    catalyst = "org.apache.spark.sql.catalyst"
    nothing = no_rows(jvm, relation.newInstance())
    kind = getattr(jvm.package(f"{catalyst}.plans.LeftAnti$"), "MODULE$")
    hint = jvm.package(f"{catalyst}.plans.logical.JoinHint").NONE()
    return jvm.package(f"{catalyst}.plans.logical.Join")(node, nothing, kind, jvm.none(), hint)


def no_rows(jvm: Jvm, node: Any) -> Any:
    """A node without its rows."""
    false = jvm.package(f"{EXPRESSIONS}.Literal").FalseLiteral()
    return jvm.package("org.apache.spark.sql.catalyst.plans.logical.Filter")(false, node)


def with_tables_inlined(jvm: Jvm, frame: DataFrame) -> DataFrame:
    """A DataFrame whose common table expressions stand where they are used, as Spark's optimizer puts them.

    Each use has conditions of its own, those within subqueries as well.
    """
    analysed = frame._jdf.queryExecution().analyzed()
    if not any(class_name(node) == "WithCTE" for node in nodes(analysed)):
        return frame
    name = "org.apache.spark.sql.catalyst.optimizer.InlineCTE"
    defaults = defaults_of(jvm, name)
    rule = jvm.package(name)(*(defaults[number]() for number in sorted(defaults)))
    return of_plan(jvm, rule.apply(analysed))


def find_scans(jvm: Jvm, frame: DataFrame) -> list[ParquetScan]:
    """The scans of a DataFrame's plan that can be given fewer files.

    Each is one relation of the analysed plan that the physical plan scans once: what reaches this scan through its
    filters is then all that the DataFrame needs of the relation.

    Parameters
    ----------
    frame : as `with_tables_inlined` gives it.

    Raises
    ------
    Doubt
        Files are scanned, but no scan can be told to read fewer.
    """
    execution = frame._jdf.queryExecution()
    if any(class_name(node) == "WithCTE" for node in nodes(execution.analyzed())):
        raise CannotPush("a table that is used in several places of the plan could not be put into each")
    logical = find_relations(frame)
    if not logical:
        raise CannotPush("nothing in the plan reads Parquet files by a list of Spark's own")
    planned = [(class_name(node), node) for node in nodes(execution.sparkPlan())]
    physical = [node for kind, node in planned if kind == "FileSourceScanExec"]
    found = []
    ids = [_ids(jvm, node) for node in logical]
    of_scans = [_ids(jvm, node) for node in physical]
    for number, relation in enumerate(logical):
        scans = [scan for scan, own in zip(physical, of_scans, strict=True) if own & ids[number]]
        alone = sum(bool(other & ids[number]) for other in ids) == 1
        if alone and len(scans) == 1:
            found.append(ParquetScan(jvm, relation, scans[0]))
    if physical and not found:
        raise CannotPush("no scan in the plan stands for a relation of its own")
    return found


def replace_relations(jvm: Jvm, frame: DataFrame, new: Sequence[tuple[Any, Any]]) -> DataFrame:
    """The DataFrame with other nodes in the place of some relations: (relation, node) each."""
    instead = {_ids(jvm, old): node for old, node in new}

    def rebuilt(node: Any) -> Any:
        if is_parquet(node):
            return instead.get(_ids(jvm, node), node)
        children = list(elements(node.children()))
        made = [rebuilt(child) for child in children]
        if all(one is other for one, other in zip(children, made, strict=True)):
            return node
        return node.withNewChildren(jvm.seq(made))

    plan = rebuilt(frame._jdf.queryExecution().analyzed())
    return of_plan(jvm, plan)


def of_plan(jvm: Jvm, plan: Any) -> DataFrame:
    """The DataFrame of an analysed plan."""
    return DataFrame(jvm.package("org.apache.spark.sql.classic.Dataset").ofRows(jvm.session, plan), jvm.spark)


def find_relations(frame: DataFrame) -> list[Any]:
    """The relations over Parquet files in a DataFrame's analysed plan."""
    return [node for node in nodes(frame._jdf.queryExecution().analyzed()) if is_parquet(node)]


def is_parquet(node: Any) -> bool:
    if class_name(node) != "LogicalRelation" or node.isStreaming():
        return False
    relation = node.relation()
    return class_name(relation) == "HadoopFsRelation" and relation.fileFormat().getClass().getName() == _PARQUET


def find_spark_index(relation: Any) -> Any:
    """Spark's own index of a relation's files, also where one of ours stands before it.

    Raises
    ------
    Doubt
        It is none that lists plain files.
    """
    location = relation.location()
    kind = class_name(location)
    ours = OUR_INDEXES.get(location.toString()) if kind.startswith("$Proxy") else None
    if ours is not None:
        return ours.original
    if kind == "MetadataLogFileIndex":
        raise CannotPush("the files are a streaming sink's, which keeps its own list of them")
    if kind not in _LISTINGS:
        raise CannotPush(f"Spark lists the files by {kind}")
    return location


def _ids(jvm: Jvm, node: Any) -> frozenset[str]:
    """What tells a relation's columns from all others in a plan."""
    named = node.output().map(jvm.method(f"{EXPRESSIONS}.NamedExpression", "exprId"))
    return frozenset(jvm.texts(named))
