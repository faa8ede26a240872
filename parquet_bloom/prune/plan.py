"""From a predicate to the row groups worth reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from ..errors import ParquetBloomError, UnknownColumnError
from ..file.footer_cache import FOOTERS, FooterCache
from ..file.reader import BloomFile
from ..predicate import parse
from ..predicate.decide import Decider
from ..storage import is_local, list_files, open_source
from ..threads import in_order
from .evidence import FileEvidence
from .report import FileDecision, PruneReport, RowGroupDecision

_REMOTE_THREADS = 16
_RUN = 16  # files


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
    threads: int | None = None,
    cache: FooterCache | None = FOOTERS,
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
        the error is raised, that of the first such file.
    threads : how many files are looked at at a time; None for one local file, for which more bring nothing while their
        footers are in memory, and 16 others, which are waited for.
    cache : footers that are known, and to which those read now are added; None for none. The one that is used when
        nothing is said is shared by all calls of the process and takes 256 MiB at most.

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
    look = partial(_look, filesystem=filesystem, decider=decider, ignore_case=ignore_case, cache=cache)
    local = is_local(filesystem)
    if threads is None:
        threads = 1 if local else _REMOTE_THREADS
    # To hand over a file to a thread takes as long as to look at one that is in memory: local ones go by several.
    runs = _runs(files, min(_RUN, -(-len(files) // threads)) if local and threads > 1 else 1)
    threads = min(len(runs), threads)
    look_at = partial(_look_at_all, look)
    with in_order(look_at, runs, threads) if threads > 1 else nullcontext(map(look_at, runs)) as looks:
        for done, found in enumerate(chain.from_iterable(looks)):
            report.requests += found.requests
            report.bytes_read += found.bytes_read
            if found.missing is not None:
                missing.intersection_update(found.missing)
            if found.decision is not None:
                report.files.append(found.decision)
            if found.error is not None:
                if on_error is None:
                    raise found.error
                on_error(found.error)
            if progress:
                progress(done + 1, len(files))
    unknown = [name for name in sorted(missing) if report.files and not any(f"{name}=" in path for path in files)]
    if unknown:
        several = f" in any of {len(files):,} files" if len(files) > 1 else ""
        raise UnknownColumnError(f"no such column{several}", path=None if several else files[0], column=unknown[0])
    return report


def _runs(files: list[str], length: int) -> list[list[str]]:
    length = max(1, length)
    return [files[start : start + length] for start in range(0, len(files), length)]


@dataclass
class _Look:
    """What a look at one file found: a decision or an error."""

    missing: list[str] | None = None
    decision: FileDecision | None = None
    error: ParquetBloomError | None = None
    requests: int = 0
    bytes_read: int = 0


def _look(path: str, filesystem: Any, decider: Decider, ignore_case: bool, cache: FooterCache | None) -> _Look:
    found = _Look()
    try:
        with open_source(path, filesystem) as source:
            try:
                file = BloomFile(source, cache)
                evidence = FileEvidence(file, decider.columns, ignore_case)
                found.missing = evidence.missing
                found.decision = FileDecision(path, tuple(_decide_file(file, evidence, decider)))
            finally:
                found.requests, found.bytes_read = source.requests, source.bytes_read
    except ParquetBloomError as error:
        found.error = error
    return found


def _look_at_all(look: Callable[[str], _Look], files: list[str]) -> list[_Look]:
    return [look(path) for path in files]


def _decide_file(file: BloomFile, evidence: FileEvidence, decider: Decider) -> Iterator[RowGroupDecision]:
    verdicts = evidence.decide_all(decider, (number for number in file.row_groups if not file.footer.empty(number)))
    for row_group in file.row_groups:
        verdict = verdicts.get(row_group)
        if verdict is None:
            yield RowGroupDecision(row_group, False, frozenset({"empty"}), "it has no rows")
            continue
        num_rows = file.footer.num_rows_of(row_group)
        doubts = verdict.doubts + tuple(evidence.doubts) if verdict.possible else ()
        yield RowGroupDecision(row_group, verdict.possible, verdict.by, verdict.reason, doubts, num_rows)
