"""Verify the filters of Parquet and ORC files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.bloom.variants import Variant
from ..errors import NotParquetError
from ..file.cache.memory import MetadataCache
from ..file.many import OnError, Progress, process_paths
from ..file.reader import parse_variant
from ..file.verify import VerifyReport, verify_parquet
from ..storage import open_source, resolve_filesystem
from ..tables.footers import as_table_footers
from ..tables.open import find_table
from .model.file_format import open_any


def verify(
    paths: Any,
    data: bool = False,
    columns: str | Iterable[str] | None = None,
    filesystem: Any = None,
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
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
    """
    parse_variant(variant)
    names = None if columns is None else [columns] if isinstance(columns, str) else [*columns]
    table = find_table(paths, storage_options)
    footers = None
    if table is not None:
        snapshot, storage_options = table.read_snapshot(), storage_options or table.storage_options
        paths, footers = [file.path for file in snapshot.files], as_table_footers(None, snapshot.columns)
    filesystem = resolve_filesystem(filesystem, storage_options)

    def verify_one(path: Any, progress: Progress | None, threads: int) -> VerifyReport:
        return verify_file(path, data, names, filesystem, progress, variant, footers)

    report = process_paths(
        paths,
        verify_one,
        VerifyReport.combine,
        filesystem=filesystem,
        threads=threads,
        progress=progress,
        on_error=on_error,
        waits=True,
    )
    if table is not None:
        report.path = table.name
    return report


def verify_file(
    path: Any,
    data: bool,
    columns: Iterable[str] | None,
    filesystem: Any,
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
        # Not at the top: most lakes have no ORC files.
        from ..orc import verify as verify_orc

        return verify_orc(path, data, columns, filesystem, progress)
