"""Where the files that Spark lists can be read from: on the driver, and on executors, which have no JVM at hand."""

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

OBJECTS = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs")  # by Spark's names; obstore reads them
_WASB = re.compile(r"(wasb)(s?://[^/]*)\.blob\.")


def storage_for(
    spark: SparkSession,
    uris: Iterable[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    known: Mapping[str, tuple[int, int]] | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[list[str], object | None]:
    """What `prune` and its like take for files that Spark lists.

    Local files are read as such, others with the options given for obstore, or else by the JVM of a classic session
    with Spark's own settings. Spark Connect has no JVM: object stores are read with the environment's settings.

    Parameters
    ----------
    spark : the session.
    uris : the files as Spark writes them, percent-encoded.
    storage_options : as in `prune`; None to read what is not local as Spark reads it.
    known : {URI: (size in bytes, time of modification in ns)}, as Spark's listing has it; saves requests.
    options : of the DataFrame; see `hadoop.hadoop_filesystem`.

    Returns
    -------
    The paths, in the order of the URIs, and what to pass as `filesystem` with them.

    Raises
    ------
    Doubt
        It is not known how to read them, or they are on file systems of several kinds.
    """
    uris = list(uris)
    schemes = sorted({find_scheme(uri) for uri in uris})
    if len(schemes) > 1:
        raise CannotPush(f"files of several kinds of file systems are not looked into: {', '.join(schemes)}")
    paths = list(map(listed_path, uris))
    if not schemes or schemes[0] == "file":
        return paths, None
    try:
        if not storage_options and is_classic(spark):
            listed = {listed_path(uri): told for uri, told in (known or {}).items()}
            return paths, hadoop_filesystem(spark, listed, options, schemes[0])
        if schemes[0] in OBJECTS:
            return list(map(object_url, paths)), resolve_filesystem(None, storage_options)
    except StorageError as error:
        raise CannotPush(str(error)) from error
    if storage_options:
        raise CannotPush(f"storage_options are for object stores, not for {schemes[0]}")
    raise CannotPush(f"without a JVM only local files and object stores are looked into, not {schemes[0]}")


@dataclass(frozen=True)
class ExecutorStorage:
    """How a task reads files of one scheme; it is sent to executors as it is.

    Attributes
    ----------
    scheme : as `find_scheme` gives it.
    options : of obstore for object stores, of fsspec for others.
    """

    scheme: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def locate(self, path: str) -> tuple[str, object | None]:
        """A path that `listed_path` gives, as `prune` and its like take it, and what to pass as `filesystem`.

        Raises
        ------
        StorageError
            The options make no object store; or fsspec, which reads what is neither local nor an object, is missing
            or does not know the path.
        """
        if self.scheme in ("", "file"):
            return path, None
        if self.scheme in OBJECTS:
            url, filesystem = object_url(path), resolve_filesystem(None, self.options)
            object_location(
                url, filesystem
            )  # options that no store can be made of are wrong for all files, not for this one
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
    """How tasks read files of a scheme; see `ExecutorStorage.locate`."""
    return ExecutorStorage(scheme.lower(), dict(storage_options or {}))


def object_url(path: str) -> str:
    """A path as obstore knows it."""
    if path.startswith("s3n:"):
        return "s3" + path[3:]
    return _WASB.sub(r"abfs\2.dfs.", path, count=1)
