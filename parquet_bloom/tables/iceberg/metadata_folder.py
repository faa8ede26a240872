"""Find the latest metadata file in the folder of an Iceberg table, of which no catalog says what is committed.

Writers create the file first and then ask the catalog to take it. One that dies or is refused in between leaves it
behind: empty or cut short, whole but of a snapshot whose manifests it has deleted again, or whole, and then the next
commit gets the same number. Such files are passed over, and a warning says so. A file that other files follow was
committed: it is never passed over.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ParquetBloomError, StorageError
from ...storage.file_names import ICEBERG_FILES
from ...util.lazy import late_module
from ...util.messages import logger
from ..table_locations import require_all_inside, without_scheme
from .known_types import with_known_types
from .manifests import list_new_manifests

if TYPE_CHECKING:
    import pyarrow.fs as fs
    import pyiceberg.catalog.noop as noop
    import pyiceberg.io as iceberg_io
    import pyiceberg.table as iceberg_tables
    import pyiceberg.table.metadata as iceberg_metadata
    from pyiceberg.io import FileIO
    from pyiceberg.table import StaticTable
    from pyiceberg.table import Table as PyicebergTable
    from pyiceberg.table.metadata import TableMetadata
else:
    fs, iceberg_io, noop = map(late_module, ("pyarrow.fs", "pyiceberg.io", "pyiceberg.catalog.noop"))
    iceberg_metadata, iceberg_tables = late_module("pyiceberg.table.metadata"), late_module("pyiceberg.table")

_NUMBERED = re.compile(r"(?:v(\d{1,18})|(\d{1,18})-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")

# Clocks by which files get their times lag by so much: they tick, and stores count in seconds.
_TICK_NS, _SECOND_NS = 20_000_000, 1_000_000_000


class ListedFile(NamedTuple):
    """A file of a folder, and when it was written, in nanoseconds since 1970; None where that is not known."""

    name: str
    modified: int | None


class Numbered(NamedTuple):
    """A metadata file, its number, and whether it is named as those of tables without a catalog are."""

    file: ListedFile
    number: int
    is_hadoop: bool


class MetadataCandidate(NamedTuple):
    """A metadata file and its content; None for content that is not understood."""

    file: ListedFile
    opened: OpenedTable | None


def number_files(files: Iterable[ListedFile]) -> list[Numbered]:
    """Return the metadata files that have numbers, the highest first."""
    found = []
    for file in files:
        match = _NUMBERED.fullmatch(file.name)
        if match is not None:
            found.append(Numbered(file, int(match[1] or match[2]), match[1] is not None))
    return sorted(found, key=lambda entry: (-entry.number, entry.file.name))


def follow_hint(numbered: Sequence[Numbered], number: int) -> list[Numbered]:
    """Return what the number in a hint and the names of a Hadoop table say is the latest, the highest first.

    A commit is the renaming of its file, and the hint is written after it: versions that follow are committed, too.
    """
    by_number: dict[int, list[Numbered]] = {}
    for entry in numbered:
        if entry.is_hadoop:
            by_number.setdefault(entry.number, []).append(entry)
    found: list[Numbered] = []
    while number in by_number:
        found = by_number[number] + found
        number += 1
    return found


def list_predecessors(metadata: TableMetadata) -> list[str]:
    """Return the names of the metadata files that a table had before this one, by its log."""
    return [str(entry.metadata_file).rpartition("/")[2] for entry in metadata.metadata_log]


def choose_among(candidates: Sequence[MetadataCandidate], known: Collection[str]) -> MetadataCandidate | None:
    """Return the one of several metadata files of one number that was committed; None if that cannot be told.

    All follow the same version, and at most one of them was committed. Whoever follows a file has got it from the
    catalog. Otherwise it is the file that was begun after the others were finished: its writer asked the catalog then,
    and got the version before, so that none of the others was committed; they are of writers that died.

    Parameters
    ----------
    known : names of files that others follow.
    """
    followed = [candidate for candidate in candidates if candidate.file.name in known]
    if len(followed) == 1:
        return followed[0]
    for candidate in candidates:
        others = [other.file.modified for other in candidates if other is not candidate]
        if candidate.opened is None or None in others:
            continue
        begun = candidate.opened.table.metadata.last_updated_ms * 1_000_000
        if all(begun > _finished_by(modified) for modified in others if modified is not None):
            return candidate
    return None


def _finished_by(modified: int) -> int:
    """Return a time by which a file of a modification time was finished."""
    return modified + (_SECOND_NS if modified % _SECOND_NS == 0 else _TICK_NS)


_GZIP_MAGIC = b"\x1f\x8b"
_FORMAT_VERSIONS = (1, 2, 3)


class OpenedTable(NamedTuple):
    """A table, pyiceberg's, and the content of its metadata file."""

    table: StaticTable
    content: bytes


class CutShortError(Exception):
    """A metadata file is empty or ends too early: its writer died, or has not finished yet."""


class NotUnderstoodError(Exception):
    """A metadata file is whole, and not of a table of a format version that is known."""


def open_metadata_file(path: str, properties: Mapping[str, object], known: OpenedTable | None = None) -> OpenedTable:
    """Return the table of a metadata file.

    Parameters
    ----------
    path : the file, compressed by gzip or not, whatever its name says.
    properties : pyiceberg's settings of the store.
    known : the table as it was opened before, which is returned again if its metadata file is the same, byte by byte.

    Raises
    ------
    CutShortError
        The file is not a whole JSON document.
    NotUnderstoodError
        It is not a table's metadata of a known version.
    FileNotFoundError
        There is no such file.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read, or is not a metadata file.
    """
    io = known.table.io if known is not None else iceberg_io.load_file_io(dict(properties), location=path)
    with io.new_input(path).open() as stream:
        content = bytes(stream.read())
    if known is not None and known.table.metadata_location == path and known.content == content:
        return known
    metadata = parse_metadata(unpack(content))
    catalog = noop.NoopCatalog("static-table")
    table = iceberg_tables.StaticTable(("static-table", path), metadata, path, io, catalog)
    return OpenedTable(table, content)


def parse_metadata(document: dict[str, Any]) -> TableMetadata:
    """Return pyiceberg's view of the JSON document of a metadata file; see `with_known_types`."""
    return iceberg_metadata.TableMetadataUtil.parse_raw(json.dumps(with_known_types(document)))


def unpack(content: bytes) -> dict[str, Any]:
    """Return the JSON document in a metadata file's content.

    No beginning of a JSON object is one itself.

    Raises
    ------
    CutShortError, NotUnderstoodError
        It is not whole, or not of a known version.
    """
    if not content:
        raise CutShortError("it is empty")
    text = content
    if content.startswith(_GZIP_MAGIC):
        try:
            text = zlib.decompress(content, wbits=31)
        except zlib.error as error:
            raise CutShortError(f"it is cut short or damaged: {error}") from None
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CutShortError(f"it is cut short or damaged: {error}") from None
    version = document.get("format-version") if isinstance(document, dict) else None
    if version not in _FORMAT_VERSIONS:
        problem = "is not a table's metadata" if version is None else f"is of format version {version!r}"
        raise NotUnderstoodError(f"it {problem}; versions 1 to 3 are read")
    return document


log = logger("parquet_bloom.tables")

_LONGEST_HINT = 4096
_HINT = "version-hint.text"
_SUFFIX = ".metadata.json"
_CERTAIN = "Only the table's catalog knows for certain"
_TRIES = 5  # at a folder whose files vanish while they are read


class MetadataFolder:
    """The folder of a table, of which the latest metadata file is found anew each time.

    Parameters
    ----------
    table : the table's folder, or its URL.
    properties : pyiceberg's settings of the store.
    """

    def __init__(self, table: str, properties: Mapping[str, object]) -> None:
        self._table, self._folder = table, f"{table}/metadata"
        self._properties = properties
        self._incomplete: dict[str, str] = {}  # {file whose manifests are gone: which}
        self._problems: dict[str, str] = {}
        self._said: set[str] = set()

    def open(self, known: OpenedTable | None) -> OpenedTable:
        """Return the table by its latest metadata file; `known` as of `open_metadata_file`.

        Raises
        ------
        ParquetBloomError
            The hint does not name a file in its folder, or nothing says which file is the latest.
        StorageError
            There is no metadata file that is whole.
        Exception
            Of many kinds, from pyiceberg: a file cannot be read, or is not a metadata file.
        """
        settings, place = dict(self._properties), self._folder
        io = known.table.io if known is not None else iceberg_io.load_file_io(settings, location=place)
        for _ in range(_TRIES):
            hint = self._read_hint(io)
            files = self._list(io, hint is None)
            try:
                if files is None:
                    return self._open_by_hint(hint, known)
                return self._choose(hint, files, known)
            except FileNotFoundError as error:  # it was listed: the writer who knows that it is not needed deletes it
                gone = error
        raise StorageError.wrap(gone, "cannot read the Iceberg table", self._table)

    def pass_over(self, table: PyicebergTable) -> bool:
        """Pass a metadata file over from now on if the snapshot that it has added is not whole; return whether so.

        Parameters
        ----------
        table : pyiceberg's, whose snapshot cannot be read.
        """
        name = str(table.metadata_location).rpartition("/")[2]
        missing = None if name in self._incomplete else self._find_missing(table)
        if missing is not None:
            self._incomplete[name] = missing
        return missing is not None

    # ------------------------------------------------------------------------------------------------- choosing

    def _choose(self, hint: str | None, files: Sequence[ListedFile], known: OpenedTable | None) -> OpenedTable:
        numbered = number_files(files)
        named = None if hint is None or hint.isdecimal() else _find_name(hint, files)
        if named is not None:
            number = next((entry.number for entry in numbered if entry.file.name == named), None)
            if number is not None and numbered[0].number > number:
                later = numbered[0].file.name
                self._say(f"{named} is read, as {_HINT} says, and {later} is not, though it has a higher number")
            return self._open(named, known)
        if hint is not None:
            by_hint = follow_hint(numbered, int(hint)) if hint.isdecimal() else []
            if by_hint:
                numbered = self._leave_hadoop(numbered, known) or by_hint
            else:
                self._say(
                    f"{_HINT} names {hint[:100]!r}, and there is no such metadata file: the highest number counts"
                )
        return self._choose_highest(numbered, known)

    def _leave_hadoop(self, numbered: Sequence[Numbered], known: OpenedTable | None) -> list[Numbered]:
        """Return the files that a catalog has written, if they follow those of a Hadoop table that it has taken over.

        Catalogs begin to count anew, and do not write the hint.
        """
        catalog_files = [entry for entry in numbered if not entry.is_hadoop]
        before = {entry.file.name for entry in numbered if entry.is_hadoop}
        for entry in catalog_files:
            try:
                opened = self._open(entry.file.name, known)
            except CutShortError:
                continue
            return catalog_files if before & set(list_predecessors(opened.table.metadata)) else []
        return []

    def _choose_highest(self, numbered: Sequence[Numbered], known: OpenedTable | None) -> OpenedTable:
        followed: set[str] = set()
        for _, group in groupby(numbered, lambda entry: entry.number):
            files = [entry.file for entry in group]
            certain = [file for file in files if file.name in followed]
            candidates = [self._read(file, known, len(files) > 1, followed) for file in certain or files]
            whole = [candidate for candidate in candidates if candidate is not None]
            if not whole:
                continue
            if len(whole) == 1 and whole[0].opened is not None:
                return whole[0].opened
            chosen = choose_among(whole, followed)
            if chosen is None or chosen.opened is None:
                names = [candidate.file.name for candidate in whole]
                problem = f"nothing says which of its metadata files is the latest, {' or '.join(names[:2])}"
                way_out = "give the path of one, or the catalog and the table's name"
                raise ParquetBloomError(f"{problem}: {way_out}", path=self._table)
            others = ", ".join(candidate.file.name for candidate in whole if candidate is not chosen)
            text = f"its metadata file {chosen.file.name} is read, and {others} of the same number is not"
            self._say(f"{text}: it was not committed when the other was begun. {_CERTAIN}")
            return chosen.opened
        if not numbered:
            problem = f"cannot read the Iceberg table: it has no metadata/{_HINT} and no metadata files"
            raise StorageError(problem, path=self._table)
        first = numbered[0].file.name
        problem = f"none of the metadata files that may be its latest is whole: {first}: {self._problems[first]}"
        raise StorageError(f"cannot read the Iceberg table: {problem}", path=self._table)

    def _read(
        self, file: ListedFile, known: OpenedTable | None, is_one_of_several: bool, followed: set[str]
    ) -> MetadataCandidate | None:
        """Return a metadata file; None if it is not whole. The names of those before it go into `followed`."""
        is_certain = file.name in followed
        try:
            opened = self._open(file.name, known)
        except (CutShortError, NotUnderstoodError) as error:
            if is_one_of_several and isinstance(error, NotUnderstoodError):
                return MetadataCandidate(file, None)
            if is_certain or isinstance(error, NotUnderstoodError):
                problem = f"cannot read the Iceberg table: its metadata file {file.name}: {error}"
                raise StorageError(problem, path=self._table) from None
            self._pass_over(file.name, str(error))
            return None
        if is_one_of_several and not is_certain:
            self.pass_over(opened.table)
        followed.update(list_predecessors(opened.table.metadata))
        if file.name in self._incomplete and not is_certain:
            self._pass_over(file.name, self._incomplete[file.name])
            return None
        return MetadataCandidate(file, opened)

    def _pass_over(self, name: str, problem: str) -> None:
        self._problems[name] = problem
        text = f"its metadata file {name} is passed over: {problem}, as a commit that failed or is under way leaves it"
        self._say(f"{text}. {_CERTAIN}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            log.warning("%s: %s", self._table, text)

    # ------------------------------------------------------------------------------------------------- reading

    def _open(self, name: str, known: OpenedTable | None) -> OpenedTable:
        return open_metadata_file(f"{self._folder}/{name}", self._properties, known)

    def _open_by_hint(self, hint: str | None, known: OpenedTable | None) -> OpenedTable:
        """Open what the hint names, in a store that cannot be listed."""
        if hint is None:
            problem = f"it has no metadata/{_HINT}: give the path of its latest metadata file"
            raise StorageError(problem, path=self._folder)
        stem = f"v{hint}" if hint.isdecimal() else hint
        return self._open(hint if hint.endswith(ICEBERG_FILES) else f"{stem}{_SUFFIX}", known)

    def _read_hint(self, io: FileIO) -> str | None:
        """Return the text of the hint; None without one, as of tables of catalogs, or if its writer died."""
        path = f"{self._folder}/{_HINT}"
        try:
            with io.new_input(path).open() as stream:
                text = stream.read(_LONGEST_HINT).decode("utf-8", "replace").strip()  # then no file is called so
        except FileNotFoundError:
            return None
        if "/" in text or "\0" in text.strip("\0"):
            raise ParquetBloomError(f"it names {text[:100]!r}, which is not a file in its folder", path=path)
        if not text.strip("\0"):
            self._say(f"{_HINT} is empty: the highest number counts")
            return None
        return str(text)

    def _list(self, io: FileIO, is_required: bool) -> list[ListedFile] | None:
        """Return the metadata files in the folder; None if the store cannot list, or does not let that be done."""
        try:
            if hasattr(io, "fs_by_scheme"):  # pyiceberg's FileIO over pyarrow
                scheme, place, path = io.parse_location(self._folder, io.properties)
                entries = io.fs_by_scheme(scheme, place).get_file_info(fs.FileSelector(path))
                files = ((entry, entry.base_name) for entry in entries)
                named = ((entry, name) for entry, name in files if name.endswith(ICEBERG_FILES) and entry.is_file)
                return [ListedFile(name, entry.mtime_ns) for entry, name in named]
            if hasattr(io, "get_fs"):  # over fsspec
                scheme = self._folder.partition("://")[0] if "://" in self._folder else "file"
                return list(_convert(io.get_fs(scheme).ls(self._folder, detail=True)))
        except OSError:
            if is_required:
                raise
        return None

    def _find_missing(self, table: PyicebergTable) -> str | None:
        """Return which file of the current snapshot, of those that it has added itself, is gone or cut short.

        Only files in the table's folder are looked for, as metadata may name any file.
        """
        snapshot = table.current_snapshot()
        if snapshot is None:
            return None
        try:
            require_all_inside([snapshot.manifest_list], without_scheme(self._table), self._table)
            if _find_size(table.io, snapshot.manifest_list) is None:
                return f"its manifest list {snapshot.manifest_list} is gone"
            manifests = list_new_manifests(table, snapshot, self._table)
            require_all_inside(manifests, without_scheme(self._table), self._table)
        except StorageError as error:
            return f"its manifest list is cut short: {error}"
        except ParquetBloomError:  # it lies elsewhere, or is not understood: reading it says so
            return None
        for path, length in manifests.items():
            size = _find_size(table.io, path)
            if size is None or length not in (None, size):
                return f"its manifest {path} is {'gone' if size is None else 'cut short'}"
        return None


def _find_size(io: FileIO, path: str) -> int | None:
    """Return the number of bytes of a file; None if there is no file, or nothing in it."""
    try:
        return len(io.new_input(path)) or None
    except FileNotFoundError:
        return None


def _find_name(hint: str, files: Iterable[ListedFile]) -> str | None:
    """Return the file for a hint that is a name, with or without the suffix."""
    wanted = hint if hint.endswith(ICEBERG_FILES) else f"{hint}{_SUFFIX}"
    return wanted if any(file.name == wanted for file in files) else None


def _convert(entries: Iterable[Mapping[str, object]]) -> Iterable[ListedFile]:
    """Yield the files of a listing of fsspec, which has times under several names."""
    for entry in entries:
        name = os.path.basename(str(entry["name"]))
        if entry.get("type") == "directory" or not name.endswith(ICEBERG_FILES):
            continue
        modified = next((entry[key] for key in ("mtime", "LastModified", "last_modified") if entry.get(key)), None)
        if isinstance(modified, datetime):
            modified = modified.timestamp()
        nanoseconds = int(modified * 1_000_000_000) if isinstance(modified, int | float) else None
        yield ListedFile(name, nanoseconds)
