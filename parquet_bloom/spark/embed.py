"""Filters embedded into all files of a lake by Spark's executors, a file a task."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import ConcurrentChangeError, ParquetBloomError, StorageError, UnknownColumnError
from ..file.columns import find_leaves
from ..file.embed import embed as embed_file
from ..file.embed import refuse_managed
from ..file.options import Columns, FilterOptions, parse_columns, plan_columns
from ..file.reader import BloomFile, open
from ..storage import list_files
from .paths import local_path, path_list
from .report import EmbedJobReport, FileResult
from .settings import ignores_case

_RESULT = (
    "path STRING, status STRING, bytes_added BIGINT, filters BIGINT, kept BIGINT, missing ARRAY<STRING>, "
    "seconds DOUBLE, error STRING"
)
_ARROW_RESULT = pa.schema(
    [
        ("path", pa.string()),
        ("status", pa.string()),
        ("bytes_added", pa.int64()),
        ("filters", pa.int64()),
        ("kept", pa.int64()),
        ("missing", pa.list_(pa.field("element", pa.string()))),
        ("seconds", pa.float64()),
        ("error", pa.string()),
    ]
)
_ATTEMPTS = 3


def embed(
    spark: SparkSession,
    path: Any,
    columns: Columns,
    *,
    fpp: float = 0.01,
    replace: bool = False,
    power_of_two: bool = True,
) -> EmbedJobReport:
    """Embed Bloom filters into every Parquet file below a path, on Spark's executors, at once.

    Each file is replaced whole or not at all, by one task; a task that is run again finds the filters there and changes
    nothing. A file that cannot be done does not stop the others: see the report.

    Parameters
    ----------
    spark : the session, classic or Connect.
    path : a file or folder that driver and executors both see, or a list of them; hidden files (`_SUCCESS`, `.crc`) are
        passed over, partitions' folders are not.
    columns : dotted paths of leaf columns, as for `parquet_bloom.embed`. Names match as they do in the session:
        whatever their case, unless `spark.sql.caseSensitive` is set. A file that lacks some of them gets the others.
    fpp, replace, power_of_two : as for `parquet_bloom.embed`.

    Returns
    -------
    EmbedJobReport
        One result a file, with totals.

    Raises
    ------
    StorageError
        There is no such path.
    ManagedTableError
        It lies in a Delta, Iceberg or Hudi table, or below a streaming sink, where the sizes of files are recorded.
    UnknownColumnError
        No file has one of the columns. Nothing was changed.
    UnsupportedTypeError
        A column's type cannot have a filter. Nothing was changed.
    ParquetBloomError
        The Spark job itself failed.
    """
    started = time.perf_counter()
    options = parse_columns(columns, FilterOptions(fpp, None, power_of_two))
    files = _files(path_list(path))
    ignore_case = ignores_case(spark)
    _check_columns(files, options, ignore_case)
    job = _Job(files, options, replace, ignore_case)
    report = EmbedJobReport(job.run(spark) if files else [])
    report.seconds = time.perf_counter() - started
    return report


def _files(paths: list[str]) -> list[str]:
    """The absolute paths of all data files: an executor's working folder is not the driver's."""
    local = []
    for path in paths:
        found = local_path(path)
        if found is None:
            raise StorageError("only files of the local file system can be replaced in place", path=path)
        refuse_managed(found)
        local.append(found)
    return [os.path.abspath(file) for file in list_files(local)]


def _check_columns(files: list[str], options: dict[str, FilterOptions], ignore_case: bool) -> None:
    """Raise unless each column is in some file, and of a type that can have a filter there.

    Commonly the first file has them all, and no other is opened here.
    """
    unknown, readable = dict(options), False
    for path in files:
        try:
            file = open(path)
        except ParquetBloomError:
            continue  # its task will say so
        with file:
            readable = True
            found = _names_in(file, unknown, ignore_case)
            plan_columns(file.leaves, {found[name]: unknown[name] for name in found}, path)
        unknown = {name: wanted for name, wanted in unknown.items() if name not in found}
        if not unknown:
            return
    if readable:
        several = f" in any of {len(files):,} files" if len(files) > 1 else ""
        raise UnknownColumnError(f"no such column{several}", path=None if several else files[0], column=min(unknown))


def _names_in(file: BloomFile, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
    """The columns that a file has, by the names asked for, as it spells them itself."""
    found = {}
    for name in names:
        leaves = find_leaves(file.leaves, name, ignore_case)
        if leaves:
            found[name] = leaves[0].name if len(leaves) == 1 else name  # of several, embedding says which
    return found


@dataclass(frozen=True)
class _Job:
    """What every task knows. It is sent to the executors."""

    files: list[str]
    options: dict[str, FilterOptions]
    replace: bool
    ignore_case: bool

    def run(self, spark: SparkSession) -> list[FileResult]:
        count = len(self.files)
        tasks = spark.range(0, count, 1, count)
        try:
            rows = tasks.mapInArrow(self.work, _RESULT).collect()
        except (PySparkException, Py4JError) as error:
            raise ParquetBloomError(_job_problem(str(error))) from error
        return [FileResult(**{**row.asDict(), "missing": tuple(row["missing"])}) for row in rows]

    def work(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What a task runs: numbers of files in, what was done to them out."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([asdict(self.embed(self.files[number]))], schema=_ARROW_RESULT)

    def embed(self, path: str) -> FileResult:
        """One file; whatever goes wrong with it is its result."""
        started = time.perf_counter()
        try:
            result = self._embed(path)
        except ParquetBloomError as error:
            result = FileResult(path, "failed", error=str(error))
        except Exception as error:
            reason = " ".join(str(error).split())
            result = FileResult(path, "failed", error=f"{path}: {type(error).__name__}: {reason}")
        return replace(result, seconds=time.perf_counter() - started)

    def _embed(self, path: str) -> FileResult:
        for attempt in range(1, _ATTEMPTS + 1):
            with open(path) as file:
                names = _names_in(file, self.options, self.ignore_case)
            missing = tuple(name for name in self.options if name not in names)
            if not names:
                return FileResult(path, "unchanged", missing=missing)
            columns = {names[name]: asdict(self.options[name]) for name in names}
            try:
                done = embed_file(path, columns, replace=self.replace, threads=1)
            except ConcurrentChangeError:
                # Often the same task elsewhere (speculation, a lost executor that lives on): see what it left.
                if attempt == _ATTEMPTS:
                    raise
                continue
            status = "embedded" if done.changed else "unchanged"
            return FileResult(path, status, done.bytes_added, done.num_filters, done.kept, missing)
        raise AssertionError("the last attempt returns or raises")


def _job_problem(text: str) -> str:
    """Why the job failed, from an error's many lines, and what helps where that is known."""
    python = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception)\b.*)", text.partition("Traceback")[2], re.MULTILINE)
    java = re.search(r"most recent failure: .*?\): (.+)", text) or re.search(r"(\S+(?:Error|Exception)\b.*)", text)
    reason = python[0] if python else java[1] if java else text.strip().partition("\n")[0] or "no reason was given"
    if any(sign in text for sign in ("ModuleNotFoundError", "PYTHON_VERSION_MISMATCH", "Cannot run program")):
        reason = (
            f"{reason.rstrip('.')}; the executors need a Python of the driver's version that has this package: name it "
            f"in PYSPARK_PYTHON (or spark.pyspark.python) before the session starts; the driver runs {sys.executable}"
        )
    return f"the Spark job failed: {reason}"
