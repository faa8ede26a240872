"""Build an archive that gives Spark's executors this package, compiled, and everything that it needs."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from gzip import GzipFile
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..errors import ParquetBloomError
from ..storage import Rewrite, create, is_url, open_source

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

PACKAGE = "parquet-bloom"
ROOT = Path(__file__).parents[1]
PROVIDED_BY_SPARK = frozenset({"pyspark", "py4j"})
"""Distributions that Spark itself brings to every executor."""

_OBJECTS = "objects"  # the extra that reads URLs

# name[extras] version; marker. A regular expression, since no installed parser can be relied on.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?", re.ASCII | re.DOTALL)
_EXTRA_MARKER = re.compile(r"\bextra\s*==\s*['\"]([^'\"]+)['\"]")
# Tests, sources for compilers, and pip's records of an installation (a URL among them may contain credentials).
_UNUSED_FOLDERS = {"tests", "__pycache__"}
_UNUSED_ENDINGS = (".pyc", ".pxd", ".pyx", ".pxi", ".h", ".hpp", ".c", ".cpp", ".a", ".lib", ".pth")
_UNUSED_NOTES = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


@dataclass(frozen=True)
class Distribution:
    """A distribution to be packed.

    Attributes
    ----------
    name, version : as in its metadata.
    files : {path below a folder of packages: local path}, sorted.
    missing : number of recorded files that do not exist.
    """

    name: str
    version: str
    files: dict[str, str]
    missing: int = 0

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(os.stat(path).st_size for path in self.files.values())


def find_distributions(extras: Collection[str] = (), without: Collection[str] = ()) -> list[Distribution]:
    """Find all distributions that this package needs, itself first, the others sorted by name.

    Parameters
    ----------
    extras : extras of this package to include; `objects` is included without being named if it is installed, since
        executors read URLs by it.
    without : distributions to leave out, together with those that only they need.

    Raises
    ------
    ParquetBloomError
        A distribution is not installed or has no list of its files, or a name is unknown.
    """
    excluded = {normalize_name(name): name for name in without}
    used_exclusions: set[str] = set()
    distributions: dict[str, Distribution] = {}
    own_requirements, known_extras = _read_own_requirements()
    for extra in extras:
        if normalize_name(extra) not in known_extras:
            raise ParquetBloomError(f"there is no extra {extra!r}; there are: {', '.join(sorted(known_extras))}")
    visited: set[tuple[str, frozenset[str]]] = set()
    # Taken from the end: what is required comes before what is packed only if it is there.
    pending = [(name, names, True) for name, names, _ in _parse_requirements(own_requirements, {_OBJECTS})]
    pending += _parse_requirements(own_requirements, {normalize_name(extra) for extra in extras})
    while pending:
        name, requested_extras, optional = pending.pop()
        if name in excluded:
            used_exclusions.add(name)
        elif name not in PROVIDED_BY_SPARK and (name, requested_extras) not in visited:
            visited.add((name, requested_extras))
            if name == PACKAGE:  # an extra that consists of other extras
                pending += _parse_requirements(own_requirements, requested_extras)
                continue
            try:
                distribution = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                if optional:  # for another platform or version of Python
                    continue
                raise ParquetBloomError(f"{name} is needed but not installed: install it, or leave it out") from None
            if name not in distributions:
                distributions[name] = _collect_recorded_files(distribution)
            pending += _parse_requirements(distribution.requires or (), requested_extras)
    if unused := sorted(excluded.keys() - used_exclusions):
        raise ParquetBloomError(f"{excluded[unused[0]]!r} is to be left out, but no packed distribution needs it")
    return [_collect_own_files(), *(distributions[name] for name in sorted(distributions))]


def normalize_name(name: str) -> str:
    """Return the normalized name of a distribution or an extra."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _parse_requirements(
    requirements: Iterable[str], extras: Collection[str]
) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Yield the name of each requirement, its extras, and whether a marker other than `extra` may exclude it."""
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None:
            raise ParquetBloomError(f"a requirement cannot be parsed: {requirement!r}")
        name, extra_names, marker = match.groups()
        required_by = set(map(normalize_name, _EXTRA_MARKER.findall(marker or "")))
        if not required_by or required_by & set(extras):
            names = frozenset(normalize_name(extra) for extra in (extra_names or "").split(",") if extra.strip())
            yield normalize_name(name), names, bool(_EXTRA_MARKER.sub("", marker or "").strip())


def _read_own_requirements() -> tuple[list[str], set[str]]:
    """Return this package's requirements as in its metadata, and the names of all its extras; prefer the sources."""
    table = _read_project_table()
    if normalize_name(str(table.get("name"))) == PACKAGE:
        by_extra = table.get("optional-dependencies", {})
        texts = [f"{text}; extra == '{extra}'" for extra, texts in by_extra.items() for text in texts]
        return [*table.get("dependencies", ()), *texts], {*map(normalize_name, by_extra)}
    try:
        ours = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise ParquetBloomError(
            f"the requirements of {PACKAGE} are unknown: it has neither metadata nor sources here"
        ) from None
    return ours.requires or [], {*map(normalize_name, ours.metadata.get_all("Provides-Extra") or ())}


def _read_project_table() -> dict[str, Any]:
    """Return the project table of the sources' pyproject.toml; next to an installed package it may be another's."""
    project = ROOT.parent / "pyproject.toml"
    try:
        table = tomllib.loads(_read(project)).get("project") if project.is_file() else None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}
    return table if isinstance(table, dict) else {}


def _collect_own_files() -> Distribution:
    """Return the running package, from its folder: an editable install has no list of its files."""
    files = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - _UNUSED_FOLDERS)
        for name in sorted(names):
            if name.endswith((".py", *EXTENSION_SUFFIXES)) and _is_loadable(name):
                path = os.path.join(folder, name)
                files[os.path.relpath(path, ROOT.parent)] = path
    return Distribution(PACKAGE, sys.modules[__name__.partition(".")[0]].__version__, files)


def _is_loadable(name: str) -> bool:
    """Return whether this Python can load a module; files for other versions have a tag: `.cpython-310-...so`."""
    _, dot, tag = name.removesuffix(".so").partition(".")
    return not name.endswith(".so") or not dot or f".{tag}.so" in EXTENSION_SUFFIXES


def _collect_recorded_files(distribution: metadata.Distribution) -> Distribution:
    """Return an installed distribution with the files in its record."""
    name = distribution.metadata["Name"]
    if distribution.files is None:
        raise ParquetBloomError(f"{name} has no list of its files: install it with pip, or leave it out")
    files, missing = {}, 0
    for file in distribution.files:
        path = os.path.abspath(str(file.locate()))
        if file.name == "direct_url.json" and os.path.isfile(path) and '"editable"' in _read(path):
            raise ParquetBloomError(
                f"{name} is an editable install without a list of its files: install it normally, or leave it out"
            )
        if {"..", ""} & set(file.parts) or file.is_absolute() or not _is_used(file.parts):
            continue
        if os.path.isfile(path):
            files[file.as_posix()] = path
        else:
            missing += 1
    return Distribution(name, distribution.version, dict(sorted(files.items())), missing)


def _read(path: str | os.PathLike[str]) -> str:
    with open_source(path) as source:
        return source.read_at(0, source.size).decode()


def _is_used(parts: tuple[str, ...]) -> bool:
    if parts[0].endswith(".dist-info"):
        return parts[-1] not in _UNUSED_NOTES
    return not (_UNUSED_FOLDERS & set(parts[:-1]) or parts[-1].endswith(_UNUSED_ENDINGS))


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
    filesystem: FileSystem | None = None,
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
