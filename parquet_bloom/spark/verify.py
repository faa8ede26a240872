"""Check all filters of a lake on Spark's executors."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from ..errors import UnknownColumnError
from ..file.reader import open
from ..file.verify import VerifyReport
from ..file.verify import verify_parquet as verify_file
from .jobs.file_tasks import Outcome
from .jobs.packing import find_sizes
from .jobs.run import find_files, run
from .report import FileVerdict, VerifyJobReport
from .scan.column_names import match_columns
from .session.settings import ignores_case


def verify(
    spark: SparkSession,
    paths: Any,
    data: bool = True,
    *,
    columns: Iterable[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> VerifyJobReport:
    """Check the filters of every Parquet file below a path, in one job on Spark's executors.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : a file or folder that driver and executors both see, the URL of an object or of a folder of them, or a list.
    data : also read the filtered columns and probe every value: a filter must not reject any.
    columns : dotted paths of the columns whose filters are checked; None for all. Names match as they do in the
        session; files that lack some of them are checked for the others.
    storage_options : as for `parquet_bloom.prune`; they are sent to the executors.

    Returns
    -------
    VerifyJobReport
        One verdict per file, with totals. Problems with a file or a filter are reported, not raised.

    Raises
    ------
    StorageError
        The path does not exist.
    ManagedTableError
        A folder holds a Delta, Iceberg or Hudi table, or the output of a streaming sink: it may contain removed files.
    UnknownColumnError
        No file has one of the columns.
    ParquetBloomError
        The Spark job failed.
    """
    started = time.perf_counter()
    names = None if columns is None else tuple([columns] if isinstance(columns, str) else columns)
    _, entries = find_files(paths, storage_options)
    files = [entry.path for entry in entries]
    task = _Verify(data, names, ignores_case(spark), storage_options)
    outcomes = run(spark, "verify", files, task, storage_options, find_sizes(entries) if data else None)
    matched = {name for outcome in outcomes if outcome.result for name in outcome.result[0]}
    if names is not None and any(outcome.result for outcome in outcomes) and not matched >= {*names}:
        raise UnknownColumnError("no such column in any file", column=min({*names} - matched))
    return VerifyJobReport([_make_verdict(outcome, data) for outcome in outcomes], time.perf_counter() - started)


@dataclass(frozen=True)
class _Verify:
    """Task that checks the filters of one file, and returns its names of the requested columns with the report."""

    data: bool
    columns: tuple[str, ...] | None
    ignore_case: bool
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> tuple[tuple[str, ...], VerifyReport]:
        if self.columns is None:
            return (), verify_file(path, self.data, storage_options=self.storage_options)
        with open(path, storage_options=self.storage_options) as file:
            names = match_columns(file, self.columns, self.ignore_case)
        report = verify_file(path, self.data, names.values(), storage_options=self.storage_options)
        return tuple(names), report


def _make_verdict(outcome: Outcome[tuple[tuple[str, ...], VerifyReport]], data: bool) -> FileVerdict:
    if outcome.result is None:
        return FileVerdict(outcome.path, "failed", seconds=outcome.seconds, error=outcome.error)
    chunks = outcome.result[1].chunks
    problems = tuple(str(chunk) for chunk in chunks if chunk.problem)
    return FileVerdict(
        outcome.path,
        "bad" if problems else "good" if chunks else "no filters",
        len(chunks),
        sum(chunk.num_values or 0 for chunk in chunks) if data else None,
        problems,
        tuple(str(chunk) for chunk in chunks if chunk.note and not chunk.problem),
        outcome.seconds,
    )
