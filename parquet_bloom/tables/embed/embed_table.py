"""`embed_table`: put filters into the files of a Delta or Iceberg table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import ParquetBloomError, PredicateError, printable, shortened
from ...file.filter_builder import Columns, FilterOptions, parse_columns
from ...file.many_files import Progress, files_at_a_time
from ...file.tabular_report import Kind, TabularReport
from ...predicate import columns as columns_of
from ...predicate import parse
from ...predicate.row_filter import row_mask
from ...redaction import shown_redacted
from ...util.arguments import require_integer
from ...util.messages import count
from ...util.threads import processors
from ..delta.delta_table import DeltaSource, delta
from ..iceberg.catalog_search import is_place, open_at
from ..iceberg.iceberg_table import IcebergTable, iceberg
from ..open_table import find_table
from .exchange_delta import DeltaTarget
from .exchange_files import (
    Committed,
    FilterColumns,
    Written,
    commit_exchanges,
    find_candidates,
    find_live,
    write_exchanges,
)
from .exchange_iceberg import IcebergTarget
from .new_files import NewFiles
from .table_target import Exchange, LiveFile, SkippedFile, TableState, Target

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ...util.given_types import Predicate, TableSource

_SHOWN = 20  # files that the text of a report lists


@shown_redacted
@dataclass(frozen=True)
class ExchangedFile:
    """A file of a table that was replaced by a new one with filters; in a dry run, one that would be.

    Attributes
    ----------
    old, new : paths; in a dry run there is no file `new`.
    old_size, new_size : bytes.
    num_filters : filters that the new file has and the old one lacks.
    """

    old: str
    new: str
    old_size: int
    new_size: int
    num_filters: int


@shown_redacted
@dataclass(frozen=True)
class EmbedTableReport(TabularReport):
    """The result of `embed_table`.

    Attributes
    ----------
    table : the table's folder, or its name in a catalog.
    old_version, new_version : Delta's version or Iceberg's snapshot id, before the commit and by it; equal if nothing
        was committed. Another writer's commit may lie between the beginning and `old_version`.
    files : the files that were replaced.
    skipped : files that lack filters and stay as they are, with the reasons.
    num_complete : files that had all filters already, or have none of the columns.
    num_left : files that lack filters and were left for another run, by `max_files` or `max_bytes`.
    properties : properties of the table that were set.
    dry_run : whether nothing was written.
    attempts : number of commits that were tried.
    seconds : time taken.

    As a table it has a row for each file that was replaced.
    """

    table: str
    old_version: int | None
    new_version: int | None
    files: tuple[ExchangedFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    num_complete: int = 0
    num_left: int = 0
    properties: tuple[str, ...] = field(default=())
    dry_run: bool = False
    attempts: int = 0
    seconds: float = 0.0

    _columns: ClassVar[Mapping[str, Kind]] = {
        "old": "path",
        "new": "path",
        "old_size": "int",
        "new_size": "int",
        "num_filters": "int",
    }

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        return map(attrgetter(*self._columns), self.files)

    @property
    def changed(self) -> bool:
        """Whether a commit was made."""
        return self.old_version != self.new_version or (self.attempts > 0 and bool(self.properties))

    @property
    def num_filters(self) -> int:
        """Number of filters that were added."""
        return sum(file.num_filters for file in self.files)

    @property
    def bytes_added(self) -> int:
        """Number of bytes by which the table's files became larger; the old files stay until a vacuum."""
        return sum(file.new_size - file.old_size for file in self.files)

    @property
    def bytes_written(self) -> int:
        """Number of bytes of the new files."""
        return sum(file.new_size for file in self.files)

    @property
    def properties_set(self) -> str:
        """Text that says how many properties of the table were set; empty if none was."""
        number = len(self.properties)
        return f"{number:,} {'property' if number == 1 else 'properties'} of the table set" if number else ""

    def __str__(self) -> str:
        shown = self.skipped[:_SHOWN]
        lines = [f"skipped: {printable(shortened(file.path))}: {printable(file.reason)}" for file in shown]
        if len(self.skipped) > _SHOWN:
            lines.append(f"... and {len(self.skipped) - _SHOWN:,} more skipped")
        return "\n".join([*lines, f"{printable(self.table)}: {self._summarize()}"])

    def _summarize(self) -> str:
        if not self.files:
            nothing = f"no filters to add, {self.properties_set}" if self.properties else "nothing to add"
            text = f"{nothing}, {count(self.num_complete, 'file')} complete"
        else:
            text = "would get " if self.dry_run else ""
            text += f"{count(self.num_filters, 'filter')} in {count(len(self.files), 'file')}"
            text += f", {self.bytes_added:+,} bytes"
            text += f", {self.properties_set}" if self.properties else ""
        if self.old_version != self.new_version:
            text += f", version {self.old_version} -> {self.new_version}"
        text += f"; {count(len(self.skipped), 'file')} skipped" if self.skipped else ""
        text += f"; {count(self.num_left, 'file')} left" if self.num_left else ""
        return text


def open_target(
    table: TableSource, catalog: Catalog | str | None, storage_options: Mapping[str, object] | None
) -> Target:
    """Return the table; see `embed_table` for what it may be.

    Raises
    ------
    ParquetBloomError
        There is no table, it is of another kind, or it names one version.
    """
    if catalog is not None:
        return _make_iceberg(_find_named(table, catalog), storage_options)
    if hasattr(table, "table_uri"):  # deltalake's: its latest version, and not the one that it has read
        return DeltaTarget(delta(table, storage_options=storage_options))
    found = find_table(table, storage_options)
    if found is None and isinstance(table, str | os.PathLike):
        name = os.fsdecode(table)
        if name.endswith(".metadata.json"):
            found = iceberg(name)
        elif "://" in name or name.startswith("file:"):
            found = delta(name, storage_options=storage_options)
        else:
            problem = "there is no Delta or Iceberg table; one that is given by its name needs its catalog"
            raise ParquetBloomError(problem, path=name)
    if isinstance(found, DeltaSource):
        _require_latest(found.requested, found.name)
        return DeltaTarget(found)
    if isinstance(found, IcebergTable):
        _require_latest(found.requested, found.name)
        return _make_iceberg(found, storage_options)
    problem = "a table is what parquet_bloom.delta or parquet_bloom.iceberg returns, a DeltaTable, a pyiceberg Table"
    raise ParquetBloomError(f"{problem} or the folder of a Delta table, not {type(table).__name__}")


def _find_named(table: TableSource, catalog: Catalog | str) -> IcebergTable:
    """Return the table of a catalog that is given by its name, its folder or one of its metadata files."""
    if isinstance(table, str | os.PathLike):
        path = os.fsdecode(table)
        if not isinstance(table, str) or is_place(path):
            return open_at(path, catalog)
    return iceberg(table, catalog=catalog)


def _make_iceberg(table: IcebergTable, storage_options: Mapping[str, object] | None) -> IcebergTarget:
    # Files outside of its folder are never exchanged; they are no reason to refuse the others.
    return IcebergTarget(table.latest(outside=True), storage_options, table.outside)


def _require_latest(version: object, name: str) -> None:
    if version is not None:
        problem = f"{version} cannot be changed: only the latest version can; pass the table without one"
        raise ParquetBloomError(problem, path=name)


_ICEBERG_PROPERTY = "write.parquet.bloom-filter-enabled.column."


COMMIT_BYTES = 64 << 30
"""Bytes of old files after which the new ones are committed."""


@dataclass(frozen=True)
class TableOptions:
    """What `embed_table` is to do; see there."""

    columns: Mapping[str, FilterOptions]
    where: object = None
    max_files: int | None = None
    max_bytes: int | None = None
    commit_bytes: int = COMMIT_BYTES
    retries: int = 5
    set_property: bool = False
    dry_run: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in ("max_files", "max_bytes", "threads")}
        for name, number in numbers.items():
            if number is not None:
                require_integer(name, number, 1)
        require_integer("commit_bytes", self.commit_bytes, 1)
        require_integer("retries", self.retries, 0)


def embed_table(
    table: TableSource,
    columns: Columns,
    *,
    fpp: float = 0.01,
    where: Predicate | None = None,
    max_files: int | None = None,
    max_bytes: int | None = None,
    commit_bytes: int = COMMIT_BYTES,
    retries: int = 5,
    set_property: bool = False,
    dry_run: bool = False,
    catalog: Catalog | str | None = None,
    storage_options: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> EmbedTableReport:
    """Embed Bloom filters into the files of a Delta or Iceberg table, by one commit that changes no row.

    For each file that lacks filters a new file is written beside it, with the same pages byte for byte, and verified:
    no filter denies a value of its column. Then one commit exchanges the files. The version before stays readable until
    a vacuum deletes its files. A second run commits nothing.

    Parameters
    ----------
    table : what `parquet_bloom.delta` or `parquet_bloom.iceberg` returns, a `deltalake.DeltaTable`, the folder of a
        Delta table or its URL, or an Iceberg table: a `pyiceberg.table.Table` of a catalog, or with `catalog` its name
        there, its folder, or one of its metadata files. Always its latest version; of an Iceberg table the branch
        `main`.
    columns, fpp : as in `embed`, by the table's names; renamed columns are found in older files.
    where : a predicate on columns whose values the table's metadata has for each file, such as partition columns: only
        files that match get filters.
    max_files, max_bytes : number of files at most that get filters, and bytes of them, but at least one file.
    commit_bytes : bytes of old files after which their new ones are committed, and the next ones begun. A run that is
        killed loses no more work than that: the next one does what is left.
    retries : how often to commit again when another writer has committed meanwhile. Files that it has removed, or of an
        Iceberg table deleted rows from, are left out; nothing is embedded a second time.
    set_property : for Iceberg, set `write.parquet.bloom-filter-enabled.column.X` by the same commit, so that writers in
        Java give new files filters.
    dry_run : write and commit nothing; the report has the sizes, and what would be skipped.
    catalog : a pyiceberg catalog, or the name of one in pyiceberg's configuration.
    storage_options : settings of the store, as named by deltalake and obstore. For the data files of an Iceberg table
        they replace those that its catalog has; metadata files are read and written by the catalog's.
    progress : called with (done, total) after each file, in bytes of the files that get filters.
    threads : files processed at a time; None for one per processor, and at least 8 in a store unless they are large.

    Raises
    ------
    ConcurrentChangeError
        Other writers have committed during each of the tries. Nothing was committed, and no new file is left.
    ParquetBloomError
        The table, or a column, cannot get filters in this way; the text names the feature. Nothing was committed but
        what earlier commits of this call did, by `commit_bytes`. Or it is not known whether the commit succeeded: the
        text says so, and the new files are kept.

    Examples
    --------
    >>> len(parquet_bloom.embed_table("events", ["user"]).files)
    2
    """
    requested = parse_columns(columns, FilterOptions(fpp))
    options = TableOptions(
        *(requested, where, max_files, max_bytes, commit_bytes, retries, set_property, dry_run, threads)
    )

    def write(
        target: Target, files: Sequence[LiveFile], chosen: FilterColumns, new_files: NewFiles, progress: Progress
    ) -> Written:
        number = threads or _count_writers(target, files)
        return write_exchanges(target, files, chosen, new_files, dry_run=dry_run, progress=progress, threads=number)

    return embed_into(open_target(table, catalog, storage_options), options, write, progress)


FileWriter = Callable[[Target, Sequence[LiveFile], FilterColumns, NewFiles, Progress], Written]
"""Writes new files with filters beside those of a table; called with a function to report the bytes that are done."""


def embed_into(
    target: Target, options: TableOptions, write: FileWriter, progress: Progress | None = None
) -> EmbedTableReport:
    """Embed Bloom filters into the files of a table; see `embed_table`."""
    started = time.perf_counter()
    if options.set_property and target.kind == "delta":
        problem = "set_property= is for Iceberg: Delta has no table property that makes writers add Bloom filters"
        raise ParquetBloomError(problem, path=target.name)
    state = target.read_state()
    chosen = FilterColumns(options.columns, state, target)
    wanted = {f"{_ICEBERG_PROPERTY}{name}": "true" for name in options.columns} if options.set_property else {}
    properties = {name: value for name, value in wanted.items() if state.properties.get(name) != value}
    files = _choose_files(state, options.where, target.name)
    number = options.threads or files_at_a_time(target.filesystem, (file.path for file in files))
    found = find_candidates(files, chosen, number)
    todo = _limit(found.lacking, options.max_files, options.max_bytes)
    report = EmbedTableReport(
        target.name,
        state.version,
        state.version,
        skipped=tuple(found.skipped),
        num_complete=found.num_complete,
        num_left=len(found.lacking) - len(todo),
        dry_run=options.dry_run,
    )
    done_bytes, all_bytes = 0, sum(file.size for file in todo)

    def note(done: int, _: int) -> None:
        if progress:
            progress(done_bytes + done, all_bytes)

    batches = list(_divide(todo, all_bytes if options.dry_run else options.commit_bytes))
    for number, files in enumerate(batches or [[]]):
        num_bytes = sum(file.size for file in files)
        if number:  # other writers may have changed what the table says of these files
            state = target.read_state()
            files, lost = find_live(state, files)
            report = replace(report, skipped=(*report.skipped, *lost))
        with NewFiles(target.filesystem) as new_files:
            written = write(target, files, chosen, new_files, note)
            if options.dry_run:
                written = _leave_out(written, target.find_unfit(state, written.exchanges))
            report = _add(report, written)
            if not options.dry_run and (written.exchanges or properties):
                done = commit_exchanges(
                    *(target, state, written.exchanges, new_files, list(options.columns), properties),
                    retries=options.retries,
                )
                report = _note_commit(report, done, properties)
                properties = {}
        done_bytes += num_bytes
    skipped = tuple(sorted(report.skipped, key=lambda file: file.path))
    return replace(report, skipped=skipped, seconds=time.perf_counter() - started)


_HELD_BYTES = 256 << 20  # of files that are written at a time: parts of an upload are in memory


def _count_writers(target: Target, files: Sequence[LiveFile]) -> int:
    """Return how many files to write at a time: in a store several, unless they are large."""
    largest = max((file.size for file in files), default=0)
    most = files_at_a_time(target.filesystem, (file.path for file in files))
    return max(processors(), min(most, _HELD_BYTES // max(largest, 1)))


def _limit(files: Sequence[LiveFile], max_files: int | None, max_bytes: int | None) -> Sequence[LiveFile]:
    """Return the first files, so many and of so many bytes at most, but at least one."""
    if max_bytes is not None:
        sizes = accumulate(file.size for file in files)
        files = files[: max(1, sum(size <= max_bytes for size in sizes))]
    return files if max_files is None else files[:max_files]


def _divide(files: Sequence[LiveFile], num_bytes: int) -> Iterator[Sequence[LiveFile]]:
    """Yield files in batches, each of which ends once it has so many bytes."""
    start = total = 0
    for position, file in enumerate(files, 1):
        total += file.size
        if total >= num_bytes or position == len(files):
            yield files[start:position]
            start, total = position, 0


def _leave_out(written: Written, reasons: Mapping[Any, str]) -> Written:
    """Return what would be written without the files that the commit would leave out, {entry: why}."""
    if not reasons:
        return written
    unfit = [SkippedFile(one.old.path, reasons[one.old.entry]) for one in written.exchanges if one.old.entry in reasons]
    exchanges = [one for one in written.exchanges if one.old.entry not in reasons]
    return replace(written, exchanges=exchanges, skipped=[*written.skipped, *unfit])


def _add(report: EmbedTableReport, written: Written) -> EmbedTableReport:
    """Add what was written to a report; in a dry run that is the result."""
    files = tuple(_describe(exchange) for exchange in written.exchanges) if report.dry_run else ()
    return replace(
        report,
        files=(*report.files, *files),
        skipped=(*report.skipped, *written.skipped),
        num_complete=report.num_complete + written.num_complete,
    )


def _note_commit(report: EmbedTableReport, done: Committed, properties: Mapping[str, str]) -> EmbedTableReport:
    """Add a commit to a report."""
    lost = tuple(SkippedFile(exchange.old.path, reason) for exchange, reason in done.lost)
    return replace(
        report,
        old_version=report.old_version if report.attempts else done.old_version,
        new_version=done.new_version,
        files=(*report.files, *(_describe(exchange) for exchange in done.exchanges)),
        skipped=(*report.skipped, *lost),
        properties=(*report.properties, *properties),
        attempts=report.attempts + done.attempts,
    )


def _choose_files(state: TableState, where: object, table: str) -> Sequence[LiveFile]:
    """Return the files whose values in the metadata match."""
    if where is None:
        return state.files
    node = parse(where)
    known = state.partition_values.schema.names
    unknown = sorted(set(columns_of(node)) - set(known))
    if unknown:
        choice = f"of {', '.join(known)}" if known else "of which this table has none"
        problem = f"where= chooses files by the values of partition columns, {choice}; {unknown[0]!r} is not one"
        raise PredicateError(problem, path=table, column=unknown[0])
    mask = row_mask(state.partition_values, node).to_pylist()
    return [file for file, matches in zip(state.files, mask, strict=True) if matches]


def _describe(exchange: Exchange) -> ExchangedFile:
    old = exchange.old
    return ExchangedFile(old.path, exchange.path, old.size, exchange.size, exchange.num_filters)
