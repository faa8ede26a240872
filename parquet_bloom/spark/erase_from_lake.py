"""Erase rows from Parquet files: executors search for them, and write the files anew."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from ..change.erase_files import EraseRequest, Outcomes, RowEraser, erase_found
from ..change.erase_report import EraseReport
from ..errors import ConcurrentChangeError, ParquetBloomError
from ..file.bloom_file import open
from ..file.drop_rows import DroppedRows
from ..scan.scan_source import ScanSource
from ..storage import is_url
from ..storage.paths import as_utf8
from .jobs.run_files import resolve_paths, run
from .search_rows import ExecutorSearch

if TYPE_CHECKING:
    from ..util.given_types import Paths, Predicate, RowKeys

_CHANGED = "it has changed since its rows were located; run again"


def erase(
    spark: SparkSession,
    lake: Paths,
    keys: DataFrame | RowKeys | os.PathLike[str] | None = None,
    on: str | Sequence[str] | None = None,
    *,
    where: Predicate | None = None,
    dialect: str | None = None,
    output: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, object] | None = None,
    timezone: str = "UTC",
) -> EraseReport:
    """Erase rows from Parquet files: those of keys, those that match a predicate, or those that do both.

    As by `parquet_bloom.erase`, only the files that hold such a row are written anew, each in one step, and of these
    only the row groups that do are encoded anew. Executors search the files, and write them; the driver gets the
    positions of the rows, 8 bytes for each. A task that is run again leaves what an earlier attempt has done.

    Parameters
    ----------
    spark : the session, classic or Connect.
    lake : a file, folder or pattern that driver and executors both see, the URL of an object on S3 or of a folder of
        them, or a list.
    keys, on : as for `parquet_bloom.spark.delete`.
    where, dialect, output, dry_run, timezone : as for `parquet_bloom.erase`.
    storage_options : settings of the URLs' store; they are sent to the executors.

    Returns
    -------
    EraseReport
        As by `parquet_bloom.erase`. Of more than a million keys it is not counted how many were found. A file of which
        an attempt was lost after it had written it has only numbers of rows, and sizes.

    Raises
    ------
    FilesFailedError
        Some files could not be written anew, and are as they were: `report` says which rows of the others are gone.
    ManagedTableError, PredicateError, UnknownColumnError, ParquetBloomError
        As `parquet_bloom.erase`; also if the Spark job failed.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.erase(spark, "lake", [1401181143], on="id"))  # doctest: +SKIP
    """
    search = ExecutorSearch(spark, keys, on, where, dialect, timezone)
    resolved = resolve_paths(lake)
    given = resolved[0] if isinstance(lake, str | os.PathLike | bytes) else resolved
    target = None if output is None else _resolve_output(os.fspath(output))
    source = ScanSource(given, None, storage_options)

    def write(files: Sequence[str], sizes: Sequence[int], eraser: RowEraser) -> Outcomes:
        outcomes = run(spark, "erase", files, _EraseFile(eraser), storage_options, sizes)
        changed = {outcome.path for outcome in outcomes if outcome.result is None and outcome.error is None}
        left = {*search.find(source.resolve()).rows} if changed else set()
        for outcome, size in zip(outcomes, sizes, strict=True):
            path = outcome.path
            if outcome.error is not None:
                yield ParquetBloomError(outcome.error.removeprefix(f"{path}: "), path=path)
            elif outcome.result is not None:
                yield outcome.result
            elif target is not None or as_utf8(path) in left:
                yield ConcurrentChangeError(_CHANGED, path=path)
            else:  # an attempt at the task whose result was lost has written it
                yield _describe_done(path, len(eraser.rows[path]), size, storage_options)

    request = EraseRequest(given, on, search.search.node, target, dry_run)
    return erase_found(request, source, search.find, write)


def _resolve_output(output: str) -> str:
    """Return a URL, or an absolute path, which says as before whether it is a folder."""
    if is_url(output):
        return output
    [path] = resolve_paths(output)
    return f"{path}/" if output.endswith("/") and not path.endswith("/") else path


@dataclass(frozen=True)
class _EraseFile:
    """Task that writes a file anew; returns None if that is not the one in which the rows were located."""

    eraser: RowEraser

    def __call__(self, path: str) -> DroppedRows | None:
        try:
            return self.eraser(path)
        except ConcurrentChangeError:
            return None


def _describe_done(
    path: str, num_rows: int, old_size: int, storage_options: Mapping[str, Any] | None
) -> DroppedRows | ParquetBloomError:
    """Return what can be told of a file that was written anew; the error if it cannot be read."""
    try:
        with open(path, storage_options=storage_options) as file:
            return DroppedRows(num_rows, file.footer.num_rows, old_size=old_size, new_size=file.source.size)
    except ParquetBloomError as error:
        return error
