"""Advise on which columns of Parquet and ORC files deserve filters, and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from ..core.bloom.variants import Variant
from ..errors import NotParquetError, ParquetBloomError
from ..file import file_survey as parquet
from ..file.advice_report import SAMPLE, AdviceReport, LakeSurvey, SurveyTask, make_survey_task
from ..file.bloom_file import BloomFile, parse_variant
from ..file.file_survey import FileSurvey
from ..file.many_files import OnError, Progress, RunOptions, process_paths
from ..file.metadata_cache import MetadataCache
from ..file.verify_file import VerifyReport, verify_parquet
from ..storage import list_files, open_source, resolve_filesystem
from ..storage.listing import as_path_list
from ..tables.open_table import find_table
from ..tables.table_footers import as_table_footers
from ..tables.table_snapshot import Table, TableColumn, TableSnapshot
from ..util.lazy import late_module
from ..util.threads import in_order, processors
from .model.data_file import open_any

if TYPE_CHECKING:
    from .. import orc
    from ..orc import orc_survey
    from ..util.given_types import FilePath, FileSystem, Paths, TableObject
else:
    orc = late_module("parquet_bloom.orc")
    orc_survey = late_module("parquet_bloom.orc.orc_survey")


def survey(
    path: FilePath,
    sample: int | None = None,
    columns: Collection[str] | None = None,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    table_columns: tuple[TableColumn, ...] | None = None,
) -> FileSurvey:
    """Survey one file of either format; see `file.advise.survey`.

    Parameters
    ----------
    table_columns : columns of the table that the file belongs to, by whose names it is surveyed; None for its own.
    """
    with open_source(path, resolve_filesystem(filesystem, storage_options)) as source:
        file = open_any(source, as_table_footers(None, table_columns))
        if isinstance(file, BloomFile):
            return parquet.survey_file(file, sample, columns)
        return orc_survey.survey(file, sample, columns)


def advise(
    paths: Paths | TableObject,
    columns: Iterable[str] | None = None,
    *,
    sample: int = SAMPLE,
    fpp: float = 0.01,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    progress: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> AdviceReport:
    """Advise on which columns deserve filters, for queries of the form `column = value`.

    The footer of every file is read, and the row indexes of ORC files: types, encodings, min and max, existing filters.
    The values of a sample of row groups, spread over all files, are read as well, to count distinct values and values
    that row groups have in common. The results are estimates of what a filter would skip beyond min and max.

    Parameters
    ----------
    paths : file, folder, pattern or URL, or a list of them; as in `prune`. Parquet and ORC files, by their contents.
        Or a Delta or Iceberg table, as in `prune`, for its live files and the names of its columns.
    columns : dotted paths; a group selects all columns in it. None for all columns.
    sample : number of row groups to read. 0 reads no values: distinct counts come from dictionary headers in a few
        files, min and max tell whether row groups are alike, and the report marks what is unknown.
    fpp : assumed false-positive probability of filters; in ORC files that of a stripe, since some readers read all of
        its row groups as soon as one of their filters answers "maybe".
    filesystem, storage_options : as in `prune`.
    progress : called after each file with (done, in all).
    threads : files surveyed concurrently; None for four for each processor.

    Returns
    -------
    AdviceReport
        A verdict for each column with its reason and figures; `str()` of it is a table, with the command to run. Files
        that cannot be read are listed, and do not count.

    Raises
    ------
    StorageError, ManagedTableError
        There are no such files, or a table tracks them in its metadata.
    UnknownColumnError
        No file has one of the columns.

    Examples
    --------
    >>> advice = parquet_bloom.advise("lake")
    >>> advice["id"].reason
    'all 8 row groups with values have a filter already'
    >>> advice.command
    'parquet-bloom embed lake --column request --in-place'
    """
    look: Callable[..., FileSurvey] = survey
    table, arguments = find_table(paths, storage_options), None
    if table is None:
        path_list = as_path_list(cast("Paths", paths))
        filesystem = resolve_filesystem(filesystem, storage_options)
        files = list_files(path_list, filesystem)
    else:
        snapshot, path_list = table.read_snapshot(), [table.name]
        filesystem = _find_filesystem(table, snapshot, filesystem, storage_options)
        files, look = [file.path for file in snapshot.files], partial(survey, table_columns=snapshot.columns)
        arguments = [os.fspath(paths)] if isinstance(paths, str | os.PathLike) else []
    task, options = make_survey_task(files, columns, sample, fpp, filesystem=filesystem, look=look)
    surveys = LakeSurvey(task)
    with in_order(partial(_survey_file, task), files, threads or 4 * processors()) as results:
        for done, result in enumerate(results, 1):
            surveys.add([result])
            if progress:
                progress(done, len(files))
    return surveys.make_report(path_list, options.fpp, arguments)


def _find_filesystem(
    table: Table, snapshot: TableSnapshot, filesystem: FileSystem | None, storage_options: Mapping[str, object] | None
) -> FileSystem | None:
    """Return the file system of a table's files: what is given, or what the table or its catalog says."""
    if filesystem is None:
        storage_options = storage_options or table.storage_options or snapshot.storage_options
    return resolve_filesystem(filesystem, storage_options)


def _survey_file(task: SurveyTask, path: str) -> tuple[str, FileSurvey | None, str | None]:
    try:
        return path, task(path), None
    except ParquetBloomError as error:
        return path, None, str(error)


def verify(
    paths: Paths | TableObject,
    data: bool = False,
    columns: str | Iterable[str] | None = None,
    filesystem: FileSystem | None = None,
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, object] | None = None,
    variant: Variant | str | None = None,
    threads: int | None = None,
    on_error: OnError = "finish",
) -> VerifyReport:
    """Check the filters of Parquet and ORC files.

    A filter of an ORC file that readers must ignore, because of a known bug of its writer, gets a note, and is bad only
    if the data shows that it loses rows.

    Parameters
    ----------
    paths : a file, a folder, a pattern, or a list of them, as in `prune`, whose format is recognised by the content; or
        a Delta or Iceberg table, as in `prune`, for its live files, whose columns then have the table's names.
    data : also read the columns and probe every value: a filter must not deny one.
    columns : dotted paths; None for all.
    filesystem, storage_options : as in `prune`.
    progress : called with (done, total): after each filter of a single file, after each file of many.
    variant : of filters in Parquet files, as in `open`; under "detect", a filter whose variant cannot be determined has
        a problem.
    threads : files processed at a time; None for one per processor, and more of remote files.
    on_error : what happens when one of many files cannot be read, as in `embed`.

    Returns
    -------
    VerifyReport
        Of the file; or of many files: iterate over it, or take its `files`, for the report of each, and its `errors`
        for those that cannot be read. Row groups of ORC files are numbered across stripes.

    Raises
    ------
    ValueError
        There is no such variant.
    FilesFailedError
        Some of many files cannot be read. `errors` is {path: error}, `report` that of the others.
    ManagedTableError
        As in `prune`.
    ParquetBloomError
        The file or its footer cannot be read. Problems of filters are reported, not raised.

    Examples
    --------
    >>> parquet_bloom.verify("lake").ok
    True
    """
    parse_variant(variant)
    names = None if columns is None else [columns] if isinstance(columns, str) else [*columns]
    table = find_table(paths, storage_options)
    footers = None
    files: Paths
    if table is not None:
        snapshot = table.read_snapshot()
        filesystem = _find_filesystem(table, snapshot, filesystem, storage_options)
        files, footers = [file.path for file in snapshot.files], as_table_footers(None, snapshot.columns)
    else:
        files = cast("Paths", paths)
        filesystem = resolve_filesystem(filesystem, storage_options)

    def verify_one(path: FilePath, progress: Progress | None, threads: int) -> VerifyReport:
        return verify_file(path, data, names, filesystem, progress, variant, footers)

    run = RunOptions(filesystem, threads, progress, on_error, waits=True)
    report = process_paths(files, verify_one, VerifyReport.combine, run)
    if table is not None:
        report.path = table.name
    return report


def verify_file(
    path: FilePath,
    data: bool,
    columns: Iterable[str] | None,
    filesystem: FileSystem | None,
    progress: Progress | None,
    variant: Variant | str | None = None,
    footers: MetadataCache | None = None,
) -> VerifyReport:
    """Check the filters of one file of either format; Parquet files cost no additional request.

    Parameters
    ----------
    footers : footers in which columns have the names that a table gives them; None for those of the file.

    Raises
    ------
    ParquetBloomError
        The file has neither format, or cannot be read.
    """
    try:
        return verify_parquet(path, data, columns, filesystem, progress, variant=variant, footers=footers)
    except NotParquetError:
        with open_source(path, filesystem) as source:
            open_any(source, None, parse_variant(variant))  # raises a better error unless it is an ORC file
        return orc.verify(path, data, columns, filesystem, progress)
