"""`parquet-bloom index append`: files come into an index."""

from __future__ import annotations

import click

from ...options.common import command
from ...options.paths import with_stdin
from ...output.output import Output
from ...output.table import Column, counted
from .common import INDEX_HELP, index_argument, lake_of, memory_option, opened, table_options

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
    exit_codes="0 done, or there was nothing to add; 2 error, of whichever file: the others were indexed.",
    paths=False,
    about=(
        f"{INDEX_HELP} A PATH is a file, a folder, a quoted pattern, a URL of any of them, or - for a list of files on "
        "standard input."
    ),
)
@index_argument
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(readable=False, allow_dash=True))
@table_options
@memory_option
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads that read and hash; as many as there are processors by default.",
)
def append(
    output: Output,
    path: str,
    paths: tuple[str, ...],
    delta: str | None,
    iceberg: str | None,
    memory_limit: int,
    jobs: int | None,
) -> int:
    """Index the files of PATHs, of a table, or without either those of the lake that the index knows of.

    Files that are indexed and unchanged are left alone. Folders, patterns and tables are remembered, and listed again
    whenever the index is opened. A file that cannot be read is reported, is not indexed, and so is named for every
    value. The index is the old one or the new one, whole, whatever happens.
    """
    lake = lake_of(list(with_stdin(paths)), delta, iceberg, "a PATH")
    with opened(output, path, live=False) as index:
        if lake is None and not paths and not index.state.manifest.lake:
            text = "the index knows of no lake: say what to index, by PATHs, --delta or --iceberg"
            raise click.UsageError(text, click.get_current_context())
        with output.progress(0) as bar, output.step("index files"):
            report = index.append(
                [] if lake is None and paths else lake,
                memory_limit=memory_limit,
                threads=jobs,
                progress=bar.of,
                on_error=output.fail,
            )
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
        several = f", {counted(len(files), 'file')} in all" if len(files) > 1 else ""
        output.summary(f"{file}: column '{column}' is not indexed: {problem}{several}")
    return output.exit_code()
