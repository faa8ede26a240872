"""From a predicate to the row groups worth reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ParquetBloomError, UnknownColumnError
from ..file.reader import BloomFile, open
from ..predicate import parse
from ..predicate.decide import Decider
from ..storage import list_files
from .evidence import FileEvidence
from .report import FileDecision, PruneReport, RowGroupDecision


def prune(
    paths: Any,
    where: Any,
    *,
    filesystem: Any = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    ignore_case: bool = False,
    progress: Callable[[int, int], None] | None = None,
    on_error: Callable[[ParquetBloomError], None] | None = None,
) -> PruneReport:
    """Find the row groups that can hold a row that matches, from statistics and Bloom filters alone.

    Parameters
    ----------
    paths : a file, a folder, or a list of them.
    where : SQL text (`"user_id = 42 AND day IN ('a', 'b')"`), pyarrow's `filters=` lists, or a predicate tree.
    filesystem : pyarrow or fsspec file system; None for the local one.
    timezone : zone of timestamps written without one, where a column holds instants.
    dialect : sqlglot dialect of SQL text; None for the common ground.
    ignore_case : match column names whatever their case.
    progress : called after each file with (done, in all).
    on_error : called with the error of a file that cannot be read, which is then left out of the report; without it,
        the error is raised.

    Returns
    -------
    PruneReport
        `selected` is {path: [row groups]}. Every row that matches is in a selected row group; what is doubtful is
        selected, and `doubts` says why.

    Raises
    ------
    PredicateError
        The predicate is not understood.
    UnknownColumnError
        No file has a column that the predicate names.
    ManagedTableError
        A folder belongs to a Delta, Iceberg or Hudi table or a streaming sink, whose old files hold removed rows.
    ParquetBloomError
        A file is not a Parquet file, or cannot be read.
    """
    decider = Decider(parse(where, dialect=dialect), timezone)
    files = list_files(paths, filesystem)
    report = PruneReport(str(decider.node), filesystem=filesystem)
    missing = set(decider.columns)
    for done, path in enumerate(files):
        try:
            with open(path, filesystem) as file:
                evidence = FileEvidence(file, decider.columns, ignore_case)
                missing.intersection_update(evidence.missing)
                report.files.append(FileDecision(path, tuple(_decide_file(file, evidence, decider))))
        except ParquetBloomError as error:
            if on_error is None:
                raise
            on_error(error)
        if progress:
            progress(done + 1, len(files))
    unknown = [name for name in sorted(missing) if report.files and not any(f"{name}=" in path for path in files)]
    if unknown:
        several = f" in any of {len(files):,} files" if len(files) > 1 else ""
        raise UnknownColumnError(f"no such column{several}", path=None if several else files[0], column=unknown[0])
    return report


def _decide_file(file: BloomFile, evidence: FileEvidence, decider: Decider) -> list[RowGroupDecision]:
    decisions = []
    for row_group in file.row_groups:
        num_rows = file.footer.num_rows_of(row_group)
        if file.footer.empty(row_group):
            decisions.append(RowGroupDecision(row_group, False, frozenset({"empty"}), "it has no rows"))
            continue
        found = evidence.of(row_group)
        verdict = decider.decide(found)
        doubts = verdict.doubts + tuple(evidence.doubts) if verdict.possible else ()
        decisions.append(RowGroupDecision(row_group, verdict.possible, verdict.by, verdict.reason, doubts, num_rows))
    return decisions
