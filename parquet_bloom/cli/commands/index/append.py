"""`parquet-bloom index append`: index files."""

from __future__ import annotations

import os

import click

from ....errors import StorageError
from ....lake.manifest import list_lake_roots
from ....util.wording import count
from ...options.common import command, skip_broken_option
from ...options.paths import expand_stdin
from ...options.tables import TableRequest
from ...output.output import Output
from ...output.table import Column
from .common import INDEX_HELP, index_argument, memory_option, open_index, resolve_lake, table_options

COLUMNS = (
    Column("added", "added", right=True),
    Column("replaced", "indexed again", right=True),
    Column("unchanged", "unchanged", right=True),
    Column("failed", "failed", right=True),
    Column("values", "values", right=True, text=lambda value: f"{value:,}"),
    Column("merged", "segments merged", right=True),
)


@command(
    "index append",
    example=(
        "parquet-bloom index append ids.index lake/\n"
        "parquet-bloom index append ids.index\n"
        "parquet-bloom index append ids.index --delta s3://bucket/events --memory-limit 2GiB"
    ),
    exit_codes="0 done, or there was nothing to add; 2 error in a file: the others were indexed.",
    paths=False,
    about=(
        f"{INDEX_HELP} A PATH is a file, a folder, a quoted pattern, a URL of any of these, or - for a list of files "
        "on standard input."
    ),
)
@index_argument
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(readable=False, allow_dash=True))
@table_options
@memory_option
@skip_broken_option
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads that read and hash. Default: the number of processors.",
)
def append(
    output: Output,
    path: str,
    paths: tuple[str, ...],
    delta: str | None,
    iceberg: str | None,
    table: TableRequest,
    memory_limit: int,
    jobs: int | None,
) -> int:
    """Index the files of PATHs or of a table; without either, the files of the lake recorded in the index.

    Indexed files that have not changed are skipped. Folders, patterns and tables are recorded, and listed again
    whenever the index is opened. A file that cannot be read is reported and not indexed; lookups then list it for every
    value. The index is updated atomically.
    """
    listed = list(expand_stdin(paths))
    lake = resolve_lake(listed, delta, iceberg, table, output, "a PATH")
    with open_index(output, path, live=False) as index:
        if lake is None and not paths and not index.state.manifest.lake:
            text = "the index has no recorded lake: give the files to index by PATHs, --delta or --iceberg"
            raise click.UsageError(text, click.get_current_context())
        with output.progress(0) as bar, output.step("index files"):
            report = index.append(
                [] if lake is None and paths else lake,
                memory_limit=memory_limit,
                threads=jobs,
                progress=bar.update,
                on_error=output.fail,
            )
        if not (report.indexed or report.unchanged or report.failed):
            recorded = index.state.manifest.lake
            roots = [*map(os.fsdecode, listed)] if paths else list_lake_roots(recorded)
            is_table = not paths and not {"delta", "iceberg"}.isdisjoint(recorded)
            if roots and not is_table:  # a table may be empty; a folder may be a mount that is missing
                output.fail(StorageError("no files in it", path=", ".join(roots)))
    with output.rows("appends", COLUMNS) as rows:
        row = {"added": report.added, "replaced": report.replaced, "unchanged": report.unchanged}
        row |= {"failed": len(report.failed), "values": report.entries, "merged": report.merged}
        rows.add(row)
        rows.facts["uncovered"] = [
            {"file": file, "column": column, "problem": problem}
            for column, files in report.uncovered.items()
            for file, problem in files.items()
        ]
    for column, files in report.uncovered.items():
        file, problem = next(iter(files.items()))
        total = f", {count(len(files), 'file')} in all" if len(files) > 1 else ""
        output.summary(f"{file}: column '{column}' is not indexed: {problem}{total}")
    return output.exit_code()
