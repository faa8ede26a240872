"""Settings of the session that determine the meaning of names and values."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from ...errors import ParquetBloomError
from ...metadata.footer import SchemaLeaf
from ...util.messages import logger
from .jvm import is_classic


def setting(spark: SparkSession, key: str) -> str:
    """Return a setting, or Spark's default for it; an empty text if this version of Spark does not have it."""
    try:
        return spark.conf.get(key) or ""
    except PySparkException:
        return ""


def is_set(spark: SparkSession, key: str) -> bool:
    """Return True if a boolean setting is on."""
    return setting(spark, key).lower() == "true"


def ignores_case(spark: SparkSession) -> bool:
    """Return True if names match regardless of case."""
    return not is_set(spark, "spark.sql.caseSensitive")


def is_connect(spark: SparkSession) -> bool:
    """Return True if a session is a client of a Spark Connect server, without a JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


_lock = threading.Lock()
_before: dict[int, str] = {}  # by context, what it had before the first of the blocks that run now
_running: Counter[int] = Counter()


def is_local(spark: SparkSession) -> bool:
    """Return True if the driver of a classic session is its only executor: the master is `local` or `local[...]`."""
    return is_classic(spark) and re.fullmatch(r"local(\[.*\])?", spark.sparkContext.master or "") is not None


@contextmanager
def use_driver_python(spark: SparkSession) -> Iterator[None]:
    """Run the Python functions that are made in the block in the driver's own Python, if the master is local.

    Spark runs `python3`, or what PYSPARK_PYTHON names. If a virtual environment is not activated, neither has this
    package. On a cluster, where executors have paths of their own, and in programs that embed Python, nothing changes.
    """
    if not is_local(spark) or not os.path.basename(sys.executable or "").startswith("python"):
        yield
        return
    context = spark.sparkContext
    key = id(context)
    with _lock:
        if not _running[key]:
            _before[key] = context.pythonExec
        _running[key] += 1
        context.pythonExec = sys.executable
    try:
        yield
    finally:
        with _lock:
            _running[key] -= 1
            if not _running[key]:
                context.pythonExec = _before.pop(key)
                del _running[key]


log = logger("parquet_bloom.spark")


class CannotPush(Exception):
    """Pruning cannot be sure of a part of the query, so all files are read and the log reports the reason."""


CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # metadata of a CHAR or VARCHAR column, whose type is else a string
DEFAULT = "EXISTS_DEFAULT"  # metadata of a column with a default value for files written before it was added


@dataclass(frozen=True)
class SparkField:
    """A column of a schema, or a leaf of structs.

    Attributes
    ----------
    path : names from the root to the column, as the schema spells them.
    type : type of the column.
    """

    path: tuple[str, ...]
    type: DataType

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        """The name quoted for SQL."""
        return ".".join(map(quote, self.path))

    @property
    def is_plain(self) -> bool:
        """Whether every parser of Spark takes that as it is: there are no variables in it."""
        return "$" not in self.sql

    @property
    def expression(self) -> Column:
        """The column as Spark has it."""
        return F.expr(self.sql)


def quote(name: str) -> str:
    """Quote a name with backticks."""
    return "`" + name.replace("`", "``") + "`"


def select_columns(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Select columns of a DataFrame; return it unchanged if these are all of its columns."""
    return frame if frame.columns == list(names) else frame.select(*map(quote, names))


def fold_case(name: str, ignore_case: bool) -> str:
    """Return the form of a name by which names are compared."""
    return name.lower() if ignore_case else name


def find_field(schema: StructType, name: str, ignore_case: bool) -> SparkField | None:
    """Find the column that a dotted name refers to; return None if there is none.

    Raises
    ------
    CannotPush
        The name matches several columns, or a CHAR or VARCHAR column.
    """
    matches = list(_find_matches(schema, fold_case(name, ignore_case), ignore_case))
    if len(matches) > 1:
        raise CannotPush(f"'{name}' matches {len(matches)} columns")
    if not matches:
        return None
    (fields,) = matches
    if any(CHAR in field.metadata for field in fields):
        raise CannotPush(f"'{name}' is a CHAR or VARCHAR column, whose texts Spark pads")
    return SparkField(tuple(field.name for field in fields), fields[-1].dataType)


def _find_matches(struct: StructType, name: str, ignore_case: bool) -> Iterator[list[StructField]]:
    """Iterate over all ways to read a dotted name; the name of a column may itself have dots."""
    for field in struct.fields:
        field_name = fold_case(field.name, ignore_case)
        if field_name == name:
            yield [field]
        if name.startswith(field_name + ".") and isinstance(field.dataType, StructType):
            for children in _find_matches(field.dataType, name[len(field_name) + 1 :], ignore_case):
                yield [field, *children]


def find_leaves(leaves: list[SchemaLeaf], field: SparkField, ignore_case: bool) -> list[SchemaLeaf]:
    """Find the leaves of a file that Spark may read for a column: those of its exact path, or below it."""
    path = [fold_case(part, ignore_case) for part in field.path]
    return [leaf for leaf in leaves if [fold_case(part, ignore_case) for part in leaf.path[: len(path)]] == path]


def iter_types(data_type: DataType) -> Iterator[Any]:
    """Iterate over a type and all types within it."""
    yield data_type
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from iter_types(field.dataType)
    for name in ("elementType", "keyType", "valueType"):
        if hasattr(data_type, name):
            yield from iter_types(getattr(data_type, name))


_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/)")
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*|(?=/(?!/)))")  # scheme and host, if there is one
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_GLOB = frozenset("{}[]*?\\")


def path_list(paths: Any) -> list[str]:
    """Convert a path, or a list of paths, to a list of texts."""
    items = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not items:
        raise ParquetBloomError("no path is given")
    return [os.fsdecode(path) for path in items]


def local_path(path: str) -> str | None:
    """Return the local path of a path or a `file:` URI, or None if it is on another file system.

    Spark does not decode a URI's path, but writes `%20` for a blank in its lists of files; the form that exists counts.
    """
    uri = _FILE_URI.match(path)
    if uri is None or os.path.lexists(path):
        return None if _URL.match(path) and not os.path.lexists(path) else os.path.abspath(path)
    literal = path[uri.end() :]
    decoded = unquote(literal)
    return decoded if os.path.lexists(decoded) and not os.path.lexists(literal) else literal


def find_scheme(uri: str) -> str:
    """Return the scheme of a URI from Spark's lists, in lower case; empty if there is none."""
    match = _URL.match(uri)
    return match[1].lower() if match else ""


def listed_path(uri: str) -> str:
    """Decode a URI from Spark's lists of files to a local path or, say, `hdfs://host/a b`.

    Raises
    ------
    CannotPush
        It is not such a URI.
    """
    file_prefix = _FILE_URI.match(uri)
    if file_prefix is not None:
        return unquote(uri[file_prefix.end() :])
    authority = _AUTHORITY.match(uri)
    if authority is None or find_scheme(uri) == "file":
        raise CannotPush(f"it is not known which file {uri} is")
    return authority[0] + unquote(uri[authority.end() :])


def normalize_path(path: str, authority: str = "") -> str:
    """Normalize a path of the caller, so that it is a prefix of the results of `listed_path` for files below it.

    Parameters
    ----------
    authority : scheme and host of the files, for URIs without a host.
    """
    local = local_path(path)
    if local is not None:
        return os.path.normpath(local)
    match = _AUTHORITY.match(path)
    if match is None:
        return path
    start = match[0].removesuffix("//")
    start = authority if start.endswith(":") and authority.startswith(start) else start
    return start + os.path.normpath(re.sub("/+", "/", "/" + path[match.end() :]))


def find_authority(path: str) -> str:
    """Return scheme and host of a result of `listed_path`; empty if it is a local path."""
    match = _AUTHORITY.match(path)
    return match[0] if match else ""


def is_pattern(path: str) -> bool:
    """Return True if Spark treats a path as a glob pattern."""
    return not _GLOB.isdisjoint(path)


def to_reader_path(path: str) -> str:
    """Convert a path of the caller for Spark's reader, with special characters of existing names escaped."""
    local = local_path(path)
    if local is None or not os.path.lexists(local):
        return path
    uri = _FILE_URI.match(path)
    is_decoded = uri is not None and path[uri.end() :] != local
    return file_uri(local) if is_pattern(path) or is_decoded else path


def file_uri(path: str) -> str:
    """Convert a local path, or a result of `listed_path`, for Spark's reader; special characters are escaped."""
    authority = find_authority(path)
    return (authority or "file://") + re.sub(r"[{}\[\]*?,\\]", r"\\\g<0>", path[len(authority) :])
