"""Build a zone index over Parquet files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..core.bloom import sbbf
from ..errors import (
    ManagedTableError,
    NoFilesError,
    ParquetBloomError,
    StorageError,
    UnknownColumnError,
    UnreadableColumnError,
    UnsupportedTypeError,
)
from ..file.bloom_file import BloomFile
from ..file.column_hashes import count_values
from ..file.column_reader import ColumnReader, find_value_outside_type
from ..file.file_columns import find_sole_leaf, type_of
from ..file.identity import (
    NO_TOKEN,
    UNREADABLE,
    chunk_bytes_fingerprint,
    compare_contents,
    footer_fingerprint,
    read_version_tokens,
    wait_until_settled,
)
from ..hashing.column_type import ColumnType
from ..metadata.footer import SchemaLeaf
from ..redaction import shown_redacted
from ..storage import Entry, Rewrite, create, list_entries, open_source, resolve_filesystem
from ..storage.file_names import TABLE_WAY_OUT, is_hidden
from ..storage.listing import as_path_list
from ..storage.paths import name_of
from ..storage.spill import SpillFile, SpillRun
from ..util.threads import in_order, processors
from .zone_filters import lance_num_bytes
from .zone_hashes import stored_keys
from .zone_index import ZoneIndex
from .zone_manifest import (
    FILTERS,
    NUMBERS,
    SCHEMA,
    FilterSizing,
    ZonedFile,
    ZoneManifest,
    describe_zones,
    divide_rows,
    make_seal,
    pack_metadata,
)

if TYPE_CHECKING:
    from ..util.given_types import FileSystem, Paths

_PREFETCHED_FILES = 4  # opened ahead of their use
_BUFFER_BYTES = 1 << 22  # of filters per thread, before they are spilled


@dataclass
class ZonedSource:
    """An open file for which zones are built.

    Attributes
    ----------
    entry : as it was listed.
    file, leaf, column_type : the file and its column.
    stamp : version token that identifies its current state.
    footer, data : fingerprints of its footer without filters and, set at the end, of the column's bytes.
    """

    entry: Entry
    file: BloomFile
    leaf: SchemaLeaf
    column_type: ColumnType
    reader: ColumnReader
    stamp: bytes
    footer: int
    data: int = 0


@dataclass
class ZonedRowGroup:
    """The zones of a row group, or the end of a file.

    Attributes
    ----------
    entry : the file as it was listed.
    opened : the open file; None if it could not be opened.
    row_group : its number; -1 at the end of the file.
    runs : its spilled filters, in the order of the zones.
    has_null : whether each zone has a null.
    error : the error, if any; later results of the file are meaningless.
    """

    entry: Entry
    opened: ZonedSource | None
    row_group: int = -1
    runs: list[SpillRun] = field(default_factory=list)
    has_null: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    error: ParquetBloomError | None = None

    @property
    def last(self) -> bool:
        return self.row_group < 0


def find_column(file: BloomFile, column: str) -> SchemaLeaf:
    """Return the leaf of a column to be indexed.

    Raises
    ------
    UnknownColumnError
        There is no column of that dotted path, or the path is ambiguous.
    UnsupportedTypeError
        The column is in a list or map, or BOOLEAN.
    """
    leaf = find_sole_leaf(file.leaves, column, file.path)
    if leaf.name != column:
        problem = f"zones need a leaf column: use '{leaf.name}'"
        raise UnknownColumnError(problem, path=file.path, column=column)
    if leaf.repeated:
        raise UnsupportedTypeError("columns in lists and maps cannot have zones", path=file.path, column=column)
    if not type_of(leaf).hashable:
        problem = "BOOLEAN columns have no zones: they have only two values"
        raise UnsupportedTypeError(problem, path=file.path, column=column)
    return leaf


def _open_source(entry: Entry, column: str, filesystem: FileSystem | None) -> ZonedSource:
    source = open_source(entry.path, filesystem, entry)
    try:
        stamp = wait_until_settled(source)
        file = BloomFile(source, None)
        leaf = find_column(file, column)
        for row_group in file.row_groups:
            count_values(file, row_group, leaf)
        reader = ColumnReader(source, file.footer, leaf)
        return ZonedSource(entry, file, leaf, type_of(leaf), reader, stamp, footer_fingerprint(file.footer))
    except BaseException:
        source.close()
        raise


class _SpillError(Exception):
    """Filters cannot be spilled: not the fault of a single file, so the build ends."""

    def __init__(self, error: StorageError):
        super().__init__(str(error))
        self.error = error


class ZoneMaker:
    """Makes the zones of files.

    Parameters
    ----------
    column, filesystem : the column, and where the files are.
    rows_per_zone, filter_bytes : of each zone, and of its filter.
    scratch : where filters are put aside.
    threads : that decode and hash.
    """

    def __init__(
        self,
        column: str,
        filesystem: FileSystem | None,
        rows_per_zone: int,
        filter_bytes: int,
        scratch: SpillFile,
        threads: int,
    ):
        self._column, self._filesystem = column, filesystem
        self._rows, self._filter_bytes = rows_per_zone, filter_bytes
        self._scratch, self._threads = scratch, threads

    def read_files(self, entries: Iterable[Entry]) -> Generator[ZonedRowGroup, None, None]:
        """Yield the zones of files, in their order; close the iterator to stop early."""

        def opened(entry: Entry) -> ZonedRowGroup:
            try:
                return ZonedRowGroup(entry, _open_source(entry, self._column, self._filesystem))
            except ParquetBloomError as error:
                error.path = error.path or entry.path
                if _is_timeout(error):
                    raise
                return ZonedRowGroup(entry, None, error=error)

        with (
            in_order(opened, entries, _PREFETCHED_FILES) as files,
            closing(_list_tasks(files)) as tasks,
            in_order(self._process, tasks, self._threads) as done,
        ):
            try:
                yield from done
            except _SpillError as failed:
                raise failed.error from failed

    def _process(self, result: ZonedRowGroup) -> ZonedRowGroup:
        opened = result.opened
        if opened is None:
            return result
        try:
            if not result.last:
                self._make_zones(result, opened)
            else:
                source = opened.file.source
                opened.data = chunk_bytes_fingerprint(source, opened.file.footer, [opened.leaf])
                source.check_unchanged()
        except ParquetBloomError as error:
            error.path = error.path or result.entry.path
            if _is_timeout(error):
                raise
            result.error = error
        return result

    def _make_zones(self, result: ZonedRowGroup, opened: ZonedSource) -> None:
        """Make the zones of a row group."""
        num_rows = opened.file.footer.num_rows_of(result.row_group)
        count = -(-num_rows // self._rows)
        result.has_null = np.zeros(count, np.bool_)
        buffer = np.zeros((max(1, min(count, _BUFFER_BYTES // self._filter_bytes)), self._filter_bytes), np.uint8)
        zone, row = 0, 0
        for array in self._read_arrays(opened, result.row_group, num_rows):
            start = 0
            while start < len(array):
                part = array.slice(start, self._rows - row)
                sbbf.insert_keys(buffer[zone % len(buffer)], stored_keys(part, opened.column_type))
                result.has_null[zone] |= bool(part.null_count)
                start += len(part)
                row += len(part)
                if row == self._rows:
                    zone, row = zone + 1, 0
                    if zone % len(buffer) == 0:
                        result.runs.append(self._spill(buffer))
                        buffer[:] = 0
        remaining = count - len(buffer) * len(result.runs)
        if remaining:
            result.runs.append(self._spill(buffer[:remaining]))

    def _spill(self, filters: NDArray[np.uint8]) -> SpillRun:
        try:
            return self._scratch.put([filters])
        except StorageError as error:
            raise _SpillError(error) from error

    def _read_arrays(self, opened: ZonedSource, row_group: int, num_rows: int) -> Iterator[pa.Array]:
        if not num_rows:
            return
        seen = 0
        for array in opened.reader.batches(row_group):
            problem = find_value_outside_type(array, opened.column_type)
            seen += len(array)
            if problem is None and seen > num_rows:
                problem = "there are more values than rows"
            if problem:
                raise _make_unreadable_error(problem, opened, row_group)
            yield array
        if seen != num_rows:
            raise _make_unreadable_error(f"{seen} values in {num_rows} rows", opened, row_group)


def _is_timeout(error: ParquetBloomError) -> bool:
    """Return whether a store timed out: the next file would wait as long, so the build ends."""
    return isinstance(error, StorageError) and error.errno == errno.ETIMEDOUT


def _make_unreadable_error(problem: str, opened: ZonedSource, row_group: int) -> UnreadableColumnError:
    return UnreadableColumnError(
        f"cannot be read: {problem}", path=opened.file.path, row_group=row_group, column=opened.leaf.name
    )


def _list_tasks(files: Iterator[ZonedRowGroup]) -> Generator[ZonedRowGroup, None, None]:
    """Yield a task for each row group of files, and one for the end of each file."""
    for opened in files:
        if opened.opened is not None:
            for row_group in opened.opened.file.row_groups:
                yield replace(opened, row_group=row_group, runs=[])
        yield opened


_BYTES_PER_BATCH = 1 << 25  # of filters, in a row group or batch
_ZONES_PER_BATCH = 1 << 14  # pyarrow's maximum number of rows of a page

Reader = Callable[[int, int], NDArray[np.uint8]]
"""Returns the bytes of the filters of consecutive zones, given the first one and their number."""


def zones_per_batch(filter_bytes: int) -> int:
    """Return the number of zones of each row group or batch except the last."""
    return max(1, min(_ZONES_PER_BATCH, _BYTES_PER_BATCH // filter_bytes))


class _ZoneSink:
    """The file object that pyarrow writes into."""

    closed = False

    def __init__(self, new: Rewrite):
        self._new = new
        self.error: BaseException | None = None

    def write(self, data: bytes | memoryview) -> int:
        if self.error is not None:  # pyarrow's writers write their footers even after an error
            return len(data)
        try:
            return self._new.write(data)
        except BaseException as error:
            self.error = error
            raise

    def tell(self) -> int:
        return self._new.tell()

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def write_index(
    new: Rewrite,
    container: str,
    zones: NDArray[np.void],
    filter_bytes: int,
    read: Reader,
    metadata: Mapping[bytes, bytes],
) -> None:
    """Write a zone index into a new file.

    Parameters
    ----------
    new, container : the file, and its container, "parquet" or "arrow".
    zones, filter_bytes, read : the zones, the size of all filters, and the function that reads them.
    metadata : metadata of the schema.

    Raises
    ------
    StorageError
        The file cannot be written.
    """
    seal = make_seal(metadata)
    schema = SCHEMA.with_metadata(pack_metadata(metadata, seal))
    batch = zones_per_batch(filter_bytes)
    write = _write_parquet if container == "parquet" else _write_arrow
    batches = _make_batches(schema, zones, filter_bytes, read, batch)
    sink = _ZoneSink(new)
    try:
        with pa.PythonFile(sink, mode="w") as opened:
            write(opened, schema, batches, lambda: sink.write(seal))
    except BaseException:
        if sink.error is not None:
            raise sink.error from None
        raise


def _make_batches(
    schema: pa.Schema,
    zones: NDArray[np.void],
    filter_bytes: int,
    read: Reader,
    most: int,
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(zones), most):
        part = zones[start : start + most]
        offsets = np.arange(len(part) + 1, dtype=np.int32) * np.int32(filter_bytes)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(read(start, len(part)))]
        filters = pa.Array.from_buffers(pa.binary(), len(part), buffers)
        numbers = [pa.array(np.ascontiguousarray(part[name])) for name in NUMBERS]
        yield pa.RecordBatch.from_arrays([*numbers, filters], schema=schema)


def _write_parquet(
    sink: pa.NativeFile, schema: pa.Schema, batches: Iterator[pa.RecordBatch], before_end: Callable[[], object]
) -> None:
    options: dict[str, object] = {
        "compression": {**dict.fromkeys(NUMBERS, "zstd"), FILTERS: "none"},
        "use_dictionary": False,
        "write_statistics": list(NUMBERS),  # bounds of filters are meaningless and long
        "store_schema": False,  # Parquet's types suffice, and the metadata would be stored twice
        "data_page_version": "1.0",
        "data_page_size": (1 << 31) - 1,  # one page of filters per row group: readers rely on that
        "write_batch_size": _ZONES_PER_BATCH,
    }
    with pq.ParquetWriter(sink, schema, **options) as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]), row_group_size=batch.num_rows)  # written when it returns
        before_end()
        writer.add_key_value_metadata(schema.metadata)  # pyarrow omits it without the stored schema


def _write_arrow(
    sink: pa.NativeFile, schema: pa.Schema, batches: Iterator[pa.RecordBatch], before_end: Callable[[], object]
) -> None:
    with pa.ipc.new_file(sink, schema) as writer:
        has_batches = False
        for batch in batches:
            writer.write_batch(batch)
            has_batches = True
        if has_batches:  # otherwise not even the first bytes of the file are written yet
            before_end()


_CONTAINERS = {".parquet": "parquet", ".parq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


_OF_TABLES = ("read_snapshot", "table_uri", "metadata_location")  # attributes of ours, deltalake's and pyiceberg's
_WAY_OUT = "give the list of its live files, parquet_bloom.dataset(table).files"


@shown_redacted
@dataclass
class ZoneBuildReport:
    """The result of `build`.

    Attributes
    ----------
    path : path of the index.
    column : dotted name of the column.
    files, fragments, zones, rows : numbers of what the index covers.
    num_bytes : size of the index file.
    filter_bytes : size of one filter.
    failed : {path: error} for files that are not covered, and so are never pruned.
    """

    path: str
    column: str
    files: int = 0
    fragments: int = 0
    zones: int = 0
    rows: int = 0
    num_bytes: int = 0
    filter_bytes: int = 0
    failed: dict[str, ParquetBloomError] = field(default_factory=dict)


def build(
    paths: Paths,
    column: str,
    output: str | os.PathLike[str],
    *,
    rows_per_zone: int = 8192,
    fpp: float = 0.00057,
    container: str | None = None,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ZoneBuildReport:
    """Write a zone index over Parquet files: a filter for every few thousand rows of a column, in Lance's schema.

    Parameters
    ----------
    paths : files, folders or patterns, as `prune` takes them. Of a Delta or Iceberg table, the list of its live files,
        such as `dataset(table).files`.
    column : dotted name of the column. It may be in structs, not in lists.
    output : the index file, which is created or replaced atomically.
    rows_per_zone : rows of a zone; the last one of each row group may have fewer. Filters are sized for as many values.
    fpp : false-positive probability of the filters. The defaults are those of Lance: 32 KiB per zone.
    container : "parquet" or "arrow"; None to choose by the extension of the output.
    filesystem, storage_options : as in `prune`; for files and output.
    threads : number of threads that decode and hash; None for one per processor.
    progress : called with the number of finished files and the number of all files.

    Returns
    -------
    A report. Files that cannot be read, or lack the column, are not covered; `failed` has their errors.

    Raises
    ------
    ParquetBloomError
        No file can be covered (the error of the first one), or the output is among the files, or cannot be written.

    Examples
    --------
    >>> from parquet_bloom import zones
    >>> report = zones.build("lake", "id", "ids.parquet")
    >>> parquet_bloom.prune("lake", "id = 1401181143", zones="ids.parquet").selected
    {'lake/day=2026-01-30/a.parquet': [0]}
    """
    filter_bytes = lance_num_bytes(rows_per_zone, fpp)
    target_path = os.fspath(output)
    kind = _choose_container(target_path, container)
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads must be at least 1, got {threads!r}")
    filesystem = resolve_filesystem(filesystem, storage_options)
    if any(hasattr(paths, name) for name in _OF_TABLES):
        raise ManagedTableError(f"zones are of files, and this is a table: {_WAY_OUT}")
    path_list = as_path_list(paths)
    try:
        entries = list_entries(path_list, filesystem)
    except ManagedTableError as error:  # a folder of a table, or a URL
        error.problem = error.problem.removesuffix(TABLE_WAY_OUT) + _WAY_OUT
        raise
    named = {entry.path for entry in entries}
    require_outside(target_path, [text for text in map(os.fsdecode, path_list) if text not in named], filesystem)
    if any(name_of(path, filesystem) == name_of(target_path, filesystem) for path in named):
        raise ParquetBloomError("the output is one of the files to be indexed", path=target_path)
    report = ZoneBuildReport(target_path, column, filter_bytes=filter_bytes)
    with create(output, filesystem) as new, SpillFile() as scratch:  # fail early if it cannot be written
        maker = ZoneMaker(column, filesystem, rows_per_zone, filter_bytes, scratch, threads or processors())
        completed = _CompletedFiles(rows_per_zone)
        with closing(maker.read_files(entries)) as results:
            done = 0
            for result in results:
                completed.add(result, filesystem, report)
                done += result.last
                if result.last and progress is not None:
                    progress(done, len(entries))
        if not completed.files:
            raise next(iter(report.failed.values()), NoFilesError("there are no files", path=target_path))
        manifest, zones = completed.manifest(column, filter_bytes), completed.zones
        packed_zones = describe_zones(zones, rows_per_zone, zones_per_batch(filter_bytes))
        metadata = FilterSizing(rows_per_zone, fpp).metadata | manifest.to_metadata(zones, packed_zones)
        reader = _SpilledFilters(scratch, completed.runs, filter_bytes)
        write_index(new, kind, zones, filter_bytes, reader.read, metadata)
        report.num_bytes = new.tell()
        new.commit()
    report.files, report.fragments, report.zones = len(manifest.files), len(manifest.fragment_rows), len(zones)
    report.rows = int(manifest.fragment_rows.sum())
    return report


def _choose_container(target: str, container: str | None) -> str:
    if container is None:
        by_extension = _CONTAINERS.get(os.path.splitext(target)[1].lower())
        if by_extension is None:
            problem = "the container is unknown: use the extension .parquet or .arrow, or set container"
            raise ParquetBloomError(problem, path=target)
        return by_extension
    if container not in ("parquet", "arrow"):
        raise ValueError(f"container must be 'parquet' or 'arrow', got {container!r}")
    return container


def require_outside(target: str, folders: Iterable[str], filesystem: FileSystem | None = None) -> None:
    """Raise ParquetBloomError if a listing of the folders would include the index, because its name is not hidden."""
    name = name_of(target, filesystem)
    for folder in folders:
        prefix = name_of(folder, filesystem).rstrip("/") + "/"
        if name.startswith(prefix):
            *parts, last = name[len(prefix) :].split("/")
            if not is_hidden(last, is_folder=False) and not any(is_hidden(part, is_folder=True) for part in parts):
                problem = f"it lies in {folder}, and would be taken for one of its files; begin its name with _"
                raise ParquetBloomError(problem, path=target)


@dataclass
class _CompletedFiles:
    """The zones of the files that are complete."""

    rows_per_zone: int
    files: list[ZonedFile] = field(default_factory=list)
    fragment_files: list[int] = field(default_factory=list)
    fragment_rows: list[int] = field(default_factory=list)
    runs: list[SpillRun] = field(default_factory=list)
    _has_null: list[NDArray[np.bool_]] = field(default_factory=list)
    _pending: list[ZonedRowGroup] = field(default_factory=list)

    def add(self, result: ZonedRowGroup, filesystem: FileSystem | None, report: ZoneBuildReport) -> None:
        """Buffer a row group of a file; at the end of the file, add its zones, unless it failed."""
        if result.error is not None:
            report.failed.setdefault(result.entry.path, result.error)
        if not result.last:
            self._pending.append(result)
            return
        results, self._pending = self._pending, []
        opened = result.opened
        if opened is None:
            return
        opened.file.close()
        if result.entry.path in report.failed:
            return
        number, source = len(self.files), opened.file.source
        name = name_of(result.entry.path, filesystem)
        footer = opened.file.footer
        self.files.append(
            ZonedFile(
                number, name, source.size, opened.stamp, opened.footer, opened.data, opened.column_type, len(results)
            )
        )
        for row_group_result in results:
            self.fragment_files.append(number)
            self.fragment_rows.append(footer.num_rows_of(row_group_result.row_group))
            self.runs += row_group_result.runs
            self._has_null.append(row_group_result.has_null)

    def manifest(self, column: str, filter_bytes: int) -> ZoneManifest:
        files = np.array(self.fragment_files, np.int64)
        counts = np.bincount(files, minlength=len(self.files))
        within = np.arange(len(files)) - np.repeat(np.cumsum(counts) - counts, counts)
        return ZoneManifest(column, filter_bytes, self.files, files, within, np.array(self.fragment_rows, np.int64))

    @property
    def zones(self) -> NDArray[np.void]:
        zones = divide_rows(np.array(self.fragment_rows, np.int64), self.rows_per_zone)
        zones["has_null"] = np.concatenate([*self._has_null, np.empty(0, np.bool_)])
        return zones


class _SpilledFilters:
    """Reader of spilled filters by the ordinals of their zones."""

    def __init__(self, scratch: SpillFile, runs: Sequence[SpillRun], filter_bytes: int):
        self._scratch, self._runs, self._filter_bytes = scratch, runs, filter_bytes
        self._ends = np.cumsum([run.count for run in runs], dtype=np.int64)

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        out = np.empty(count * self._filter_bytes, np.uint8)
        position, done = first * self._filter_bytes, 0
        i = int(np.searchsorted(self._ends, position, "right"))
        while done < len(out):
            run = self._runs[i]
            skipped = position + done - (int(self._ends[i]) - run.count)
            num_bytes = min(run.count - skipped, len(out) - done)
            out[done : done + num_bytes] = self._scratch.get(run, skipped, num_bytes)
            done += num_bytes
            i += 1
        return out


_CONCURRENT_READS = 4

CURRENT, CHANGED, GONE, UNKNOWN = "current", "changed", "gone", "unknown"


def file_states(index: ZoneIndex, filesystem: FileSystem | None = None) -> list[str]:
    """Return for each file of an index over Parquet files: CURRENT, CHANGED, GONE, or UNKNOWN if it cannot be read.

    A file whose size, times or etag changed is read: it may have been copied, or filters may have been embedded.
    """
    files = index.files or []
    entries = [Entry(file.path) for file in files]
    tokens = read_version_tokens(entries, filesystem)

    def find_state(number: int) -> str:
        file, token = files[number], tokens[number]
        if token is None:
            return GONE
        if token == UNREADABLE:
            return UNKNOWN
        if token == (file.size, file.stamp) and file.stamp != NO_TOKEN:
            return CURRENT

        def leaves(opened: BloomFile) -> list[SchemaLeaf]:
            return [find_column(opened, index.column or "")]

        same, _ = compare_contents(entries[number], filesystem, file.footer, file.data, leaves)
        return CURRENT if same else CHANGED

    with in_order(find_state, range(len(files)), _CONCURRENT_READS) as results:
        return list(results)
