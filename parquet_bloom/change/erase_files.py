"""`erase`: write the files of a lake anew without some rows, each in one step."""

from __future__ import annotations

import errno
import glob
import itertools
import os
import posixpath
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import FilesFailedError, ManagedTableError, NoFilesError, ParquetBloomError, StorageError
from ..file.drop_rows import DroppedRows, write_without_rows
from ..file.file_rewrite import refuse_managed
from ..file.identity import NO_TOKEN, read_version_tokens
from ..file.many_files import OnError, process_files, require_on_error
from ..predicate.tree import Node
from ..scan.lookup.key_chunks import list_columns
from ..scan.scan_options import ScanOptions
from ..scan.scan_source import ScanSource
from ..storage import is_local, is_url, same_place
from ..storage.index_folder import Folder
from ..storage.local.local_rewrite import leftovers_below
from ..storage.paths import as_utf8, path_text
from ..util.arguments import require_threads
from ..util.messages import count
from ..util.threads import processors
from .erase_report import ErasedFile, EraseReport
from .find_rows import Find, RowsByPath, RowSearch
from .held_copies import HeldCopy, list_shared_dictionaries, search_again

if TYPE_CHECKING:
    from ..util.given_types import FileSystem, Paths, Predicate, RowKeys

_WAY_OUT = (
    "; `parquet_bloom.delete(..., mode='rewrite')`, or `parquet-bloom delete --mode rewrite`, erases rows of a Delta "
    "or Iceberg table"
)
_Progress = Callable[[int, int], None]


def erase(
    lake: Paths,
    keys: RowKeys | os.PathLike[str] | None = None,
    on: str | Sequence[str] | None = None,
    *,
    where: Predicate | None = None,
    output: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    index: str | os.PathLike[str] | None = None,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    partitioning: Literal["hive"] | None = "hive",
    timezone: str = "UTC",
    dialect: str | None = None,
    threads: int | None = None,
    progress: _Progress | None = None,
    on_error: OnError = "finish",
    confirm: Callable[[int, int], bool] | None = None,
) -> EraseReport:
    """Erase rows from Parquet files: those of keys, those that match a predicate, or those that do both.

    Only the files that hold such a row are written anew, and of these only the row groups that do are encoded anew; the
    others are copied byte for byte, with their filters and page indexes, but for column chunks whose dictionaries have
    a value of these rows that no row there has (pyarrow puts one dictionary into many row groups). Nothing of the rows
    is left in a new file: not in pages, dictionaries, statistics, page indexes and filters, nor in bytes that earlier
    changes left behind. Each file is replaced in one step. A run that is killed leaves each file the old or the new
    one; run again, it goes on.

    Parameters
    ----------
    lake : a file, a folder, a pattern, or a list of them, as in `prune`.
    keys : a value, or a list, Arrow or NumPy array or Series of values; for several columns a list of tuples; also
        a table or DataFrame with these columns, a `pyarrow.RecordBatchReader`, or a `pathlib.Path` of a Parquet file
        that has them. Any number. Keys that are null are counted in the report: no row has them.
    on : the column of the keys; a list of columns; or a function of a column, such as `lower(email)`.
    where : a predicate, as in `prune`, in place of keys, or besides them: then rows have to meet both.
    output : a folder for the new files, in place of replacing the old ones; or the new file of a single file that is
        given. The folder gets the files that had such rows, each at its path relative to the lake, and no others.
        Files that are there are overwritten.
    dry_run : encode everything, so that the report has all figures, but write nothing.
    index : a lake index of these files by which they are searched, as in `prune`.
    filesystem, storage_options, partitioning, timezone, dialect : as in `prune`. `output` is required unless the files
        are on the local file system or on S3 by URL, where the store copies what is long and stays as it is.
    threads : as for `embed`.
    progress : called with (done, in all), in bytes of the files that are written anew, after each of them.
    on_error : as in `embed`.
    confirm : called with the number of rows and of files when they are located, before anything is written; False ends
        it there, with nothing changed.

    Returns
    -------
    EraseReport
        Its text is for people, its `to_dict` to be kept with the request.

    Raises
    ------
    FilesFailedError
        Some files could not be written anew, and are as they were: `report` says which rows of the others are gone. A
        file that has changed since its rows were located is among them; run again.
    ManagedTableError
        The files are those of a Delta, Iceberg or Hudi table, or of a streaming sink.
    PredicateError, UnknownColumnError
        A key or the predicate does not fit the columns; nothing was changed.
    ParquetBloomError
        One of its subclasses: the files cannot be searched; nothing was changed.

    Notes
    -----
    What other systems keep is not erased, and the report says so: older versions of objects, snapshots and backups,
    other hard links of a file, values in key-value metadata of files. Lake and zone indexes of the files are not used
    for the new versions, so that they hide no row; their hashes go when they are brought up to date.

    Memory: keys, positions of the rows, and for each thread a column of a row group, decoded and encoded.

    Examples
    --------
    >>> parquet_bloom.erase("lake", [1401181143], on="id").num_rows
    1
    """
    require_threads(threads)
    search = RowSearch.make(keys, on, where, dialect, ScanOptions(timezone, threads=threads))
    lake_source = ScanSource(lake, filesystem, storage_options, index, None, partitioning)
    num_threads = max(1, processors() if threads is None else threads)

    def write(files: Sequence[str], sizes: Sequence[int], eraser: RowEraser) -> Outcomes:
        jobs = max(1, min(num_threads, len(files)))
        one = replace(eraser, threads=max(1, num_threads // jobs))
        with process_files(files, lambda path, _: one(path), jobs) as outcomes:
            yield from outcomes

    request = EraseRequest(lake, on, search.node, output, dry_run, progress, on_error, confirm)
    return erase_found(request, lake_source, search.find, write)


@dataclass(frozen=True)
class EraseRequest:
    """What a caller wants to have erased; see `erase`.

    Attributes
    ----------
    where : the predicate, parsed; None for none.
    """

    lake: object
    on: str | Sequence[str] | None
    where: Node | None
    output: str | os.PathLike[str] | None = None
    dry_run: bool = False
    progress: _Progress | None = None
    on_error: OnError = "finish"
    confirm: Callable[[int, int], bool] | None = None

    def __post_init__(self) -> None:
        require_on_error(self.on_error)


@dataclass(frozen=True)
class RowEraser:
    """Writes a file anew without its rows; instances may be sent to other processes.

    Attributes
    ----------
    rows : {path: numbers of rows that go}.
    tokens : {path: the version of the file that the rows are of}.
    outputs : {path: the new file, None for replacing the old one}.
    filesystem : of the files, resolved.
    threads : for each file.
    """

    rows: RowsByPath
    tokens: Mapping[str, bytes]
    outputs: Mapping[str, str | None]
    filesystem: FileSystem | None
    dry_run: bool
    threads: int = 1

    def __call__(self, path: str) -> DroppedRows:
        output = self.outputs[path]
        if output is not None and not self.dry_run and not is_url(output):
            Folder(os.path.dirname(output) or os.curdir, self.filesystem).make()
        return write_without_rows(
            path,
            self.rows[path],
            output,
            token=self.tokens[path],
            filesystem=self.filesystem,
            dry_run=self.dry_run,
            threads=self.threads,
        )


Outcomes = Generator[DroppedRows | ParquetBloomError, None, None]
WriteAnew = Callable[[Sequence[str], Sequence[int], RowEraser], Outcomes]
"""Calls the last argument with each of some files, whose sizes are the second; the outcomes are in their order."""


def erase_found(request: EraseRequest, source: ScanSource, find: Find, write: WriteAnew) -> EraseReport:
    """Erase the rows that a search finds in the files of a lake; see `erase`.

    Parameters
    ----------
    source : of the files, as a caller gives them.
    """
    started = time.perf_counter()
    dry_run, output = request.dry_run, request.output
    where = None if request.where is None else str(request.where)
    report = EraseReport(_describe(request.lake), _name_columns(request.on), where)
    report.dry_run = dry_run
    index = source.index
    try:
        source = _open_lake(source)
        listing = source.list_files()
    except ManagedTableError as error:
        error.problem += _WAY_OUT
        raise
    entries, partitions = listing.entries, listing.partitions.schema
    if not entries:  # a mount that is missing, for one
        raise NoFilesError("no files in it", path=_describe(request.lake))
    listed = [entry.path for entry in entries]
    versions = dict(zip(listed, read_version_tokens(entries, source.filesystem), strict=True))
    found = find(source)
    report.num_searched = len(entries)
    if found.counts is not None:
        report.keys_given, report.keys_null, report.keys_found = found.counts.given, found.counts.null, found.num_found
    names = {as_utf8(path): path for path in listed}
    # A file that came after the listing has no token: it is left alone, and named.
    targets = {names.get(name, name): rows for name, rows in found.rows.items()}
    outputs = _plan_outputs(request.lake, listed, list(targets), output, source.filesystem)
    report.num_located = found.num_rows
    if request.confirm is not None and targets and not dry_run and not request.confirm(found.num_rows, len(targets)):
        report.seconds = time.perf_counter() - started
        return report
    known = {path: versions.get(path) or (0, NO_TOKEN) for path in targets}
    tokens = {path: token for path, (_, token) in known.items()}
    sizes = [size for size, _ in known.values()]
    eraser = RowEraser(targets, tokens, outputs, source.filesystem, dry_run)
    with closing(write(list(targets), sizes, eraser)) as outcomes:
        _enter(request, report, sizes, outputs, outcomes)
    unknown: list[HeldCopy] = []
    if not dry_run and output is not None:
        written = replace(source, paths=[file.output for file in report.files], index=None)
        report.rows_after, unknown = search_again(lambda: find(written).num_rows) if report.files else (0, [])
    elif not dry_run:
        pinned = source.with_partitions(partitions.names, partitions)  # some files may look like of another type
        report.rows_after, unknown = search_again(lambda: _count_rows_after(pinned, versions, targets, find))
    report.held = [*unknown, *_find_held(source, output, index, report)]
    report.seconds = time.perf_counter() - started
    if report.errors and request.on_error == "finish":
        raise FilesFailedError(report.errors, len(targets), report) from next(iter(report.errors.values()))
    return report


def _count_rows_after(
    source: ScanSource, versions: Mapping[str, tuple[int, bytes] | None], found: RowsByPath, find: Find
) -> int:
    """Return how many such rows the lake has now; files that are as they were when they were searched are not read.

    Parameters
    ----------
    versions : {path: size and token} of the files when they were searched.
    found : {path: rows} that they had then.
    """
    entries = source.list_files().entries
    changed, num_rows = [], 0
    for entry, version in zip(entries, read_version_tokens(entries, source.filesystem), strict=True):
        if version is None:
            continue  # it has been deleted
        if version[1] != NO_TOKEN and version == versions.get(entry.path):
            num_rows += len(found.get(entry.path, ()))
        else:
            changed.append(entry.path)
    return num_rows + (find(replace(source, paths=changed, index=None)).num_rows if changed else 0)


def _enter(
    request: EraseRequest,
    report: EraseReport,
    sizes: Sequence[int],
    outputs: Mapping[str, str | None],
    outcomes: Iterable[DroppedRows | ParquetBloomError],
) -> None:
    """Enter each file, or its error, into the report; `outputs` and `sizes` are of the files that are written anew."""
    done, total = 0, sum(sizes)
    for (path, output), size, outcome in zip(outputs.items(), sizes, outcomes, strict=True):
        if isinstance(outcome, ParquetBloomError):
            outcome.path = outcome.path or path
            if request.on_error == "raise":
                raise outcome
            report.errors[path] = outcome
            if callable(request.on_error):
                request.on_error(outcome)
        else:
            report.files.append(ErasedFile(path, output or path, outcome))
        done += size
        if request.progress:
            request.progress(done, total)


_KINDS = {"delta": "a Delta", "iceberg": "an Iceberg", "paimon": "a Paimon"}


def _open_lake(source: ScanSource) -> ScanSource:
    """Resolve the source, and refuse tables."""
    source = source.resolve()
    table = source.find_table()
    if table is not None:
        raise ManagedTableError(f"the files are those of {_KINDS[table.kind]} table", path=table.name)
    for path in _given_paths(source):
        refuse_managed(path, source.filesystem)
    return source


def _plan_outputs(
    lake: object,
    listed: Sequence[str],
    paths: Sequence[str],
    output: str | os.PathLike[str] | None,
    filesystem: FileSystem | None,
) -> dict[str, str | None]:
    """Return where each file is written anew.

    Raises
    ------
    ParquetBloomError
        The output is the file itself, or in the lake, whose files would then have rows twice.
    StorageError
        The output has no name.
    """
    if output is None:
        return dict.fromkeys(paths)
    target = path_text(output)
    if not target:
        raise StorageError("the path of the output is empty", errno=errno.EINVAL)
    is_folder = target.endswith("/") or (is_local(filesystem, [target]) and os.path.isdir(target))
    if isinstance(lake, str | os.PathLike) and listed == [os.fsdecode(lake)] and not is_folder:
        if same_place(listed[0], target, filesystem):
            raise ParquetBloomError("the output is the file itself: leave it out to replace the file", path=target)
        return dict.fromkeys(paths, target)
    root = _find_root(lake, listed)
    uses_local = is_local(filesystem, [target]) and is_local(filesystem, listed)
    real = Path(target).resolve() if uses_local else None
    if real is not None and (real == Path(root).resolve() or Path(root).resolve() in real.parents):
        raise ParquetBloomError("the output is in the lake itself, which would have rows twice", path=target)
    join = os.path.join if uses_local else posixpath.join
    return {path: join(target, path[len(root) :].lstrip("/")) for path in paths}


def _find_root(lake: object, listed: Sequence[str]) -> str:
    """Return the folder that paths of new files are relative to: the lake's, or the common one of all files."""
    if isinstance(lake, str | os.PathLike):
        root = os.fsdecode(lake).rstrip("/")
        while glob.has_magic(root) and not os.path.lexists(root):
            root = posixpath.dirname(root)
        if all(path.startswith(f"{root}/") for path in listed):
            return root
    folders = [posixpath.dirname(path).split("/") for path in listed]
    shared = itertools.takewhile(lambda names: len({*names}) == 1, zip(*folders, strict=False))
    return "/".join(names[0] for names in shared)


def _find_held(source: ScanSource, output: object, index: object, report: EraseReport) -> list[HeldCopy]:
    """Return what may still hold the rows, as far as can be told."""
    held = []
    if output is not None and report.files:
        held.append(HeldCopy("the old files, beside which the new ones were written", True, "delete or replace them"))
    if report.errors:
        held.append(HeldCopy("the files that failed", True, "run again"))
    if index is not None and report.files:
        until = "bring it up to date and compact it: `parquet-bloom index append`, then `index compact`"
        held.append(HeldCopy(f"hashes of keys in the index {os.fspath(index)}", True, until))  # type: ignore[call-overload]
    for folder in _local_folders(source):
        if leftovers_below(folder):
            until = "delete them: `parquet-bloom sweep`"
            held.append(HeldCopy(f"files that killed writers left in {folder}", True, until))
    held += list_shared_dictionaries(name for file in report.files for name in file.dropped.shared)
    if report.files:
        until = "look there"
        held += [
            HeldCopy("other lake indexes and zone indexes of these files: hashes and filters", False, "rebuild them"),
            HeldCopy("older versions of objects, snapshots, backups, copies and other hard links", False, until),
            HeldCopy("key-value metadata of the files, which is not searched", False, until),
        ]
    return held


def _given_paths(source: ScanSource) -> list[str]:
    given = source.paths if isinstance(source.paths, list) else [source.paths]
    return [path_text(path) for path in given if path is not None]


def _local_folders(source: ScanSource) -> list[str]:
    return [name for name in _given_paths(source) if is_local(source.filesystem, [name]) and os.path.isdir(name)]


def _describe(lake: object) -> str:
    if isinstance(lake, str | os.PathLike):
        return os.fsdecode(lake)
    return count(len(lake), "path") if isinstance(lake, Sequence) else str(lake)


def _name_columns(on: str | Sequence[str] | None) -> str | None:
    return None if on is None else ", ".join(list_columns(on))
