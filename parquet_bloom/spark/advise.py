"""Which columns of a lake deserve filters: its files surveyed by Spark's executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from ..file.advise.report import SAMPLE, AdviceReport, make_report, make_survey_task
from ..scan.advise import survey
from .jobs.packing import sizes_of
from .jobs.run import find_files, run
from .session.paths import path_list


def advise(
    spark: SparkSession,
    path: Any,
    columns: Iterable[str] | None = None,
    *,
    sample: int = SAMPLE,
    fpp: float = 0.01,
    storage_options: Mapping[str, Any] | None = None,
) -> AdviceReport:
    """Say which columns deserve filters, and why: what `parquet_bloom.advise` does, on Spark's executors, at once.

    Parameters
    ----------
    spark : the session, classic or Connect.
    path : a file or folder that driver and executors both see, the URL of an object or of a folder of them, or a list.
    columns, sample, fpp : as for `parquet_bloom.advise`; names are the files' own.
    storage_options : as for `parquet_bloom.prune`; they are sent to the executors.

    Returns
    -------
    AdviceReport
        The same as without Spark.

    Raises
    ------
    StorageError, ManagedTableError
        There is no such path, or a table keeps books on its files.
    UnknownColumnError
        No file has one of the columns.
    ParquetBloomError
        The Spark job itself failed.
    """
    _, entries = find_files(path, storage_options)
    files = [entry.path for entry in entries]
    question, options = make_survey_task(files, columns, sample, fpp, storage_options=storage_options, look=survey)
    sizes = [size if question.per_file.get(file) else 0 for file, size in zip(files, sizes_of(entries), strict=True)]
    outcomes = run(spark, "advise", files, question, storage_options, sizes)
    found = ((outcome.path, outcome.result, outcome.error) for outcome in outcomes)
    return make_report(path_list(path), question, options.fpp, found)
