"""Storage of the files that Spark lists: how the driver reads them, and executors, which cannot use a JVM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from ...errors import StorageError
from ...storage import object_location, resolve_filesystem
from .fallback import CannotPush
from .hadoop import hadoop_filesystem
from .jvm import is_classic
from .paths import find_scheme, listed_path

# Schemes that obstore reads, by Spark's names of them.
OBJECTS = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs")
_WASB = re.compile(r"(wasb)(s?://[^/]*)\.blob\.")


def resolve_storage(
    spark: SparkSession,
    uris: Iterable[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    states: Mapping[str, tuple[int, int]] | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[list[str], object | None]:
    """Return the paths and the file system by which `prune` and its siblings read files that Spark lists.

    Local files are read directly, others by obstore with the given options, or else by the JVM of a classic session
    with Spark's own settings. Spark Connect has no JVM: object stores are read with the environment's settings.

    Parameters
    ----------
    spark : the session.
    uris : URIs of the files, percent-encoded as Spark writes them.
    storage_options : as in `prune`; None to read remote files as Spark does.
    states : {URI: (size in bytes, time of modification in ns)} from Spark's listing; saves requests.
    options : options of the DataFrame; see `hadoop.hadoop_filesystem`.

    Returns
    -------
    The paths, in the order of the URIs, and the argument `filesystem` for them.

    Raises
    ------
    CannotPush
        There is no way to read them, or they are on several kinds of file systems.
    """
    uris = list(uris)
    schemes = sorted({find_scheme(uri) for uri in uris})
    if len(schemes) > 1:
        raise CannotPush(f"files on several kinds of file systems are not supported: {', '.join(schemes)}")
    paths = list(map(listed_path, uris))
    if not schemes or schemes[0] == "file":
        return paths, None
    try:
        if not storage_options and is_classic(spark):
            listed = {listed_path(uri): state for uri, state in (states or {}).items()}
            return paths, hadoop_filesystem(spark, listed, options, schemes[0])
        if schemes[0] in OBJECTS:
            return list(map(object_url, paths)), resolve_filesystem(None, storage_options)
    except StorageError as error:
        raise CannotPush(str(error)) from error
    if storage_options:
        raise CannotPush(f"storage_options are for object stores, not for {schemes[0]}")
    raise CannotPush(f"without a JVM only local files and object stores can be read, not {schemes[0]}")


@dataclass(frozen=True)
class ExecutorStorage:
    """Settings with which a task reads files of one scheme; instances are sent to executors.

    Attributes
    ----------
    scheme : a result of `find_scheme`.
    options : options of obstore for object stores, of fsspec for other file systems.
    """

    scheme: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def locate(self, path: str) -> tuple[str, object | None]:
        """Convert a result of `listed_path` to a path for `prune` and its siblings, and their argument `filesystem`.

        Raises
        ------
        StorageError
            The options are not valid for an object store; or fsspec, which reads files that are neither local nor
            objects, is missing or cannot open the path.
        """
        if self.scheme in ("", "file"):
            return path, None
        if self.scheme in OBJECTS:
            url, filesystem = object_url(path), resolve_filesystem(None, self.options)
            object_location(url, filesystem)  # raises now if the options are invalid, which concerns all files
            return url, filesystem
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            problem = f"{self.scheme} is read on executors by fsspec, which is not installed there"
            raise StorageError(problem, path=path) from None
        try:
            filesystem, inside = url_to_fs(path, **self.options)
        except (ImportError, OSError, TypeError, ValueError) as error:
            raise StorageError.wrap(error, "fsspec does not read it", path) from error
        return inside, filesystem


def executor_storage(scheme: str, storage_options: Mapping[str, Any] | None = None) -> ExecutorStorage:
    """Make the settings with which tasks read files of a scheme; see `ExecutorStorage.locate`."""
    return ExecutorStorage(scheme.lower(), dict(storage_options or {}))


def object_url(path: str) -> str:
    """Convert a path to the form that obstore accepts."""
    if path.startswith("s3n:"):
        return "s3" + path[3:]
    return _WASB.sub(r"abfs\2.dfs.", path, count=1)
