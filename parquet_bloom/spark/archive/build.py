"""One archive from which Spark's executors have this package, compiled, and all that it needs."""

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
from .dependencies import Distribution, closure

MANIFEST = "parquet_bloom_archive.json"
"""The file in the archive that says what it holds and what it was made for."""

ENDINGS = (".tar.gz", ".tgz", ".tar")
FOLDER = "environment"
"""Where it is unpacked, below the working folder of each executor."""

_TIME = 315_532_800  # 1980-01-01, in seconds: the earliest that every kind of archive can tell
_LEVEL = 6


@dataclass(frozen=True)
class ArchiveReport:
    """What was packed.

    Attributes
    ----------
    path : the archive, as the caller named it.
    num_bytes : its size.
    distributions : what is in it, this package first.
    made_for : what the executors have to be like: "python", "implementation", "platform" and "libc".
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
        """Settings that a session is to be started with."""
        path = self.path
        if not is_url(path):
            path = os.path.abspath(path)
            if quote(path) != path:  # Spark takes it for a URI, and a comma for the end of it
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
    """Pack this package and the distributions that it needs, but for pyspark, as a folder for PYTHONPATH.

    It holds compiled modules, so executors need the same version of Python, platform and C library (or a newer one of
    these) as where it is made. What is packed comes before what an executor has installed itself. Packing the same
    distributions again gives the same bytes.

    Parameters
    ----------
    output : a path or URL that ends in .tar.gz, .tgz or .tar (larger, and made in no time); replaced whole or not
        at all.
    extras : extras of this package whose distributions are wanted, too, such as "s3".
    without : names of distributions that executors have themselves, such as "pyarrow". What only they need is left out
        as well.
    filesystem : where `output` is; None for local paths and URLs.
    progress : called with the number of files packed and that of all.

    Raises
    ------
    ParquetBloomError
        A distribution is not installed, or is one that has no list of its files, or a name is unknown.
    StorageError
        The archive cannot be written.
    """
    path = os.fspath(output)
    if not path.lower().endswith(ENDINGS):
        raise ParquetBloomError(f"its name must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}", path=path)
    distributions = closure(extras, without)
    made_for = _this_machine()
    with create(path, filesystem) as archive:
        _write(archive, distributions, made_for, progress)
        num_bytes = archive.tell()
        archive.commit()
    return ArchiveReport(path, num_bytes, distributions, made_for)


def _this_machine() -> dict[str, str]:
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
    zipped = None
    if not archive.path.lower().endswith(".tar"):
        target = zipped = GzipFile("", "wb", _LEVEL, target, mtime=0)
    files = {place: path for distribution in distributions for place, path in distribution.files.items()}
    packed = {distribution.name: distribution.version for distribution in distributions}
    manifest = json.dumps({"made_for": made_for, "distributions": packed}, indent=2) + "\n"
    with tarfile.open(mode="w|", fileobj=target, format=tarfile.GNU_FORMAT) as tar:
        _add(tar, MANIFEST, manifest.encode())
        for number, (place, path) in enumerate(sorted(files.items())):
            if progress is not None:
                progress(number, len(files))
            with open_source(path) as source:
                _add(tar, place, source.read_at(0, source.size))
    if zipped is not None:
        zipped.close()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """A file that is the same whoever packs it, and when."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = _TIME
    info.mode = 0o644
    tar.addfile(info, io.BytesIO(data))
