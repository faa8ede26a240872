"""Embed filters into a Delta or Iceberg table: files are written on the executors, the driver commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ..errors import ParquetBloomError
from ..file.filter_builder import Columns, FilterOptions, parse_columns
from ..file.many_files import Progress
from ..tables.embed.embed_table import COMMIT_BYTES, EmbedTableReport, TableOptions, embed_into, open_target
from ..tables.embed.exchange_files import FilterColumns, Written, collect_exchanges, write_exchange
from ..tables.embed.new_files import NewFiles
from ..tables.embed.table_target import Exchange, LiveFile, Target
from .jobs.file_tasks import Outcome
from .jobs.run_files import run

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ..util.given_types import FileSystem, Predicate, TableSource


def embed_table(
    spark: SparkSession,
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
) -> EmbedTableReport:
    """Embed Bloom filters into the files of a Delta or Iceberg table, by one commit that changes no row.

    Executors write the new files and verify them; the driver reads footers, and commits. A file that fails does not
    stop the others: it stays as it is, and the report says why. Nothing is committed if the job itself fails.

    Parameters
    ----------
    spark : the session, classic or Connect.
    table, columns, fpp, where, max_files, max_bytes, commit_bytes, retries, set_property, dry_run, catalog :
        as for `parquet_bloom.embed_table`. Driver and executors both see the table's files by the same paths or URLs.
    storage_options : settings of a Delta table's store, as named by deltalake; they are sent to the executors.

    Raises
    ------
    ConcurrentChangeError, ParquetBloomError
        As `parquet_bloom.embed_table`; also if the Spark job failed.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.embed_table(spark, "events", ["id"]))  # doctest: +SKIP
    """
    requested = parse_columns(columns, FilterOptions(fpp))
    options = TableOptions(requested, where, max_files, max_bytes, commit_bytes, retries, set_property, dry_run)

    def write(
        target: Target, files: Sequence[LiveFile], chosen: FilterColumns, new_files: NewFiles, progress: Progress
    ) -> Written:
        paths = {file.path: (file.size, target.name_new_file(file)) for file in files}
        new_files.expect(path for _, path in paths.values())
        task = _WriteFile(chosen, paths, target.filesystem, dry_run)
        sizes = [file.size for file in files]
        outcomes = run(spark, "embed", list(paths), task, storage_options, sizes)
        return collect_exchanges(files, map(_make_exchange, files, outcomes), progress)

    return embed_into(open_target(table, catalog, storage_options), options, write)


@dataclass(frozen=True)
class _NewFile:
    """A file that an executor has written, or in a dry run would have."""

    path: str
    size: int
    num_filters: int


@dataclass(frozen=True)
class _WriteFile:
    """Task that writes a new file beside one of a table.

    A task that is run again, or twice at once, writes the same bytes to the same path.

    Attributes
    ----------
    columns : those that get filters.
    paths : {path of a file: its size, and the path of the new one}.
    filesystem : of the files.
    """

    columns: FilterColumns
    paths: Mapping[str, tuple[int, str]]
    filesystem: FileSystem | None
    dry_run: bool

    def __call__(self, path: str) -> _NewFile | None:
        size, new_path = self.paths[path]
        old = LiveFile(path, size, None)
        written = write_exchange(
            NewFiles(self.filesystem), old, new_path, self.columns, dry_run=self.dry_run, threads=1
        )
        return None if written is None else _NewFile(written.path, written.size, written.num_filters)


def _make_exchange(file: LiveFile, outcome: Outcome[_NewFile | None]) -> Exchange | ParquetBloomError | None:
    if outcome.error is not None:
        return ParquetBloomError(outcome.error.removeprefix(f"{file.path}: "), path=file.path)
    written = outcome.result
    return None if written is None else Exchange(file, written.path, written.size, written.num_filters)
