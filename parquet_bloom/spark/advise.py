"""Advise which columns of a lake deserve filters, from a survey of its files by Spark's executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from ..file.advise.report import SAMPLE, AdviceReport, make_report, make_survey_task
from ..scan.advise import survey
from .jobs.packing import find_sizes
from .jobs.run import find_files, run
from .session.paths import path_list


def advise(
    spark: SparkSession,
    paths: Any,
    columns: Iterable[str] | None = None,
    *,
    sample: int = SAMPLE,
    fpp: float = 0.01,
    storage_options: Mapping[str, Any] | None = None,
) -> AdviceReport:
    """Recommend columns that deserve filters, with reasons: `parquet_bloom.advise` as one job on Spark's executors.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : a file or folder that driver and executors both see, the URL of an object or of a folder of them, or a list.
    columns, sample, fpp : as for `parquet_bloom.advise`; names are spelled as in the files.
    storage_options : as for `parquet_bloom.prune`; they are sent to the executors.

    Returns
    -------
    AdviceReport
        The report that `parquet_bloom.advise` gives.

    Raises
    ------
    StorageError, ManagedTableError
        The path does not exist, or a table tracks the files in its metadata.
    UnknownColumnError
        No file has one of the columns.
    ParquetBloomError
        The Spark job failed.
    """
    _, entries = find_files(paths, storage_options)
    files = [entry.path for entry in entries]
    tasks, options = make_survey_task(files, columns, sample, fpp, storage_options=storage_options, look=survey)
    sizes = [size if tasks.per_file.get(file) else 0 for file, size in zip(files, find_sizes(entries), strict=True)]
    outcomes = run(spark, "advise", files, tasks, storage_options, sizes)
    results = ((outcome.path, outcome.result, outcome.error) for outcome in outcomes)
    return make_report(path_list(paths), tasks, options.fpp, results)
