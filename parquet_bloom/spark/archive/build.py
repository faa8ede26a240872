"""Build an archive that gives Spark's executors this package, compiled, and everything that it needs."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from gzip import GzipFile
from typing import Any
from urllib.parse import quote

from ...errors import ParquetBloomError
from ...storage import Rewrite, create, is_url, open_source
from .dependencies import Distribution, find_distributions

MANIFEST = "parquet_bloom_archive.json"
"""Name of the file in the archive that lists its distributions and the required platform."""

SUFFIXES = (".tar.gz", ".tgz", ".tar")
FOLDER = "environment"
"""Folder that the archive is unpacked to, below the working folder of each executor."""

_TIME = 315_532_800  # 1980-01-01, in seconds: the earliest that every kind of archive can represent
_LEVEL = 6


@dataclass(frozen=True)
class ArchiveReport:
    """Report on a written archive.

    Attributes
    ----------
    path : the archive, as the caller named it.
    num_bytes : its size.
    distributions : the packed distributions, this package first.
    made_for : what the executors must match: "python", "implementation", "platform" and "libc".
    """

    path: str
    num_bytes: int
    distributions: list[Distribution]
    made_for: dict[str, str]

    @property
    def unpacked_bytes(self) -> int:
        """Bytes on each executor's disk."""
        return sum(distribution.num_bytes for distribution in self.distributions)

    @property
    def settings(self) -> dict[str, str]:
        """Settings with which to start a session."""
        path = self.path
        if not is_url(path):
            path = os.path.abspath(path)
            if quote(path) != path:  # Spark parses a URI, and treats a comma as a separator
                path = f"file://{quote(path)}"
        return {"spark.archives": f"{path}#{FOLDER}", "spark.executorEnv.PYTHONPATH": f"./{FOLDER}"}


def write_archive(
    output: str | os.PathLike[str],
    *,
    extras: Collection[str] = (),
    without: Collection[str] = (),
    filesystem: object | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ArchiveReport:
    """Pack this package and the distributions that it needs, except pyspark, into an archive for PYTHONPATH.

    It holds compiled modules, so executors need the version of Python, the platform and the C library (or a newer one)
    of the machine that builds it. Packed modules take precedence over those that an executor has installed. Packing
    the same distributions again gives the same bytes.

    Parameters
    ----------
    output : a path or URL that ends in .tar.gz, .tgz or .tar (larger, but fast to write); replaced atomically.
    extras : extras of this package to include, such as "s3".
    without : names of distributions that executors have already, such as "pyarrow". Distributions that only they need
        are left out as well.
    filesystem : the file system of `output`; None for local paths and URLs.
    progress : called with the number of packed files and the total number.

    Raises
    ------
    ParquetBloomError
        A distribution is not installed or has no list of its files, or a name is unknown.
    StorageError
        The archive cannot be written.
    """
    path = os.fspath(output)
    if not path.lower().endswith(SUFFIXES):
        raise ParquetBloomError(
            f"the name of an archive must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}", path=path
        )
    distributions = find_distributions(extras, without)
    made_for = _describe_machine()
    with create(path, filesystem) as archive:
        _write(archive, distributions, made_for, progress)
        num_bytes = archive.tell()
        archive.commit()
    return ArchiveReport(path, num_bytes, distributions, made_for)


def _describe_machine() -> dict[str, str]:
    return {
        "python": "{}.{}".format(*sys.version_info),
        "implementation": sys.implementation.name,
        "platform": sysconfig.get_platform(),
        "libc": " ".join(platform.libc_ver()).strip(),
    }


def _write(
    archive: Rewrite,
    distributions: list[Distribution],
    made_for: dict[str, str],
    progress: Callable[[int, int], None] | None,
) -> None:
    target: Any = archive
    gzip_file = None
    if not archive.path.lower().endswith(".tar"):
        target = gzip_file = GzipFile("", "wb", _LEVEL, target, mtime=0)
    files = {name: path for distribution in distributions for name, path in distribution.files.items()}
    versions = {distribution.name: distribution.version for distribution in distributions}
    manifest = json.dumps({"made_for": made_for, "distributions": versions}, indent=2) + "\n"
    with tarfile.open(mode="w|", fileobj=target, format=tarfile.GNU_FORMAT) as tar:
        _add(tar, MANIFEST, manifest.encode())
        for i, (name, path) in enumerate(sorted(files.items())):
            if progress is not None:
                progress(i, len(files))
            with open_source(path) as source:
                _add(tar, name, source.read_at(0, source.size))
    if gzip_file is not None:
        gzip_file.close()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file with constant metadata, so that the archive depends only on its contents."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = _TIME
    info.mode = 0o644
    tar.addfile(info, io.BytesIO(data))
