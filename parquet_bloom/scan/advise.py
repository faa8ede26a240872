"""Which columns of a lake deserve filters, and why: of Parquet and of ORC files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from ..errors import ParquetBloomError
from ..file.advise import survey as parquet
from ..file.advise.report import SAMPLE, AdviceReport, SurveyTask, make_report, make_survey_task
from ..file.advise.survey import FileSurvey
from ..file.reader import BloomFile
from ..storage import list_files, open_source, resolve_filesystem
from ..storage.listing import as_path_list
from ..util.threads import in_order, processors
from .model.file_format import open_any


def survey(
    path: Any,
    sample: int | None = None,
    columns: Collection[str] | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> FileSurvey:
    """Look at one file, of whichever format; see `file.survey.survey`."""
    with open_source(path, resolve_filesystem(filesystem, storage_options)) as source:
        file = open_any(source, None)
        if isinstance(file, BloomFile):
            return parquet.survey_file(file, sample, columns)
        from ..orc.survey import survey as survey_orc

        return survey_orc(file, sample, columns)


def advise(
    paths: Any,
    columns: Iterable[str] | None = None,
    *,
    sample: int = SAMPLE,
    fpp: float = 0.01,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    threads: int | None = None,
) -> AdviceReport:
    """Say which columns deserve filters, and why: for queries of the form `column = value`.

    Of every file the footer is read, of ORC files the row indexes too: types, encodings, min and max, filters that are
    there. Of some row groups, spread over all files, the values are read as well, which tells how many are distinct,
    and how many row groups have values in common. What follows are estimates; they say what a filter would skip beyond
    what min and max do.

    Parameters
    ----------
    paths : file, folder, pattern or URL, or several; as in `prune`. Parquet and ORC files, told by what they hold.
    columns : dotted paths, a group standing for all columns in it; None for all columns.
    sample : number of row groups to be read; 0 for none: then dictionaries' headers in a few files tell how many values
        are distinct, min and max whether row groups are alike, and what that leaves open is said to be.
    fpp : false-positive probability that filters are reckoned with; in ORC files that of a stripe, all of whose row
        groups are read by some readers as soon as one of their filters says "maybe".
    filesystem, storage_options : as in `prune`.
    progress : called after each file with (done, in all).
    threads : files that are looked at at once; None for a few a processor.

    Returns
    -------
    AdviceReport
        A verdict a column with its reason and numbers; `str()` of it is a table, with the command to run. Files that
        cannot be read are named in it, and do not count.

    Raises
    ------
    StorageError, ManagedTableError
        There are no such files, or a table keeps books on them.
    UnknownColumnError
        No file has one of the columns.
    """
    several = as_path_list(paths)
    places = resolve_filesystem(filesystem, storage_options)
    files = list_files(several, places)
    question, options = make_survey_task(files, columns, sample, fpp, filesystem=places, look=survey)
    found: list[tuple[str, FileSurvey | None, str | None]] = []
    with in_order(partial(_one, question), files, threads or 4 * processors()) as outcomes:
        for done, outcome in enumerate(outcomes, 1):
            found.append(outcome)
            if progress:
                progress(done, len(files))
    return make_report(several, question, options.fpp, found)


def _one(question: SurveyTask, path: str) -> tuple[str, FileSurvey | None, str | None]:
    try:
        return path, question(path), None
    except ParquetBloomError as error:
        return path, None, str(error)
