"""`parquet-bloom index advise`: estimate what an index costs by each granularity, and recommend one."""

from __future__ import annotations

from dataclasses import asdict

import click

from ...lake.index_advice import SAMPLE, advise_index
from ...lake.units import GRANULARITIES
from ...util.messages import count
from ..command import POSITIVE, CommandOptions, argument, command, option
from ..options.name_completion import complete_columns
from ..options.shared_options import parse_whole_number
from ..output.output import BAD, GOOD, Output
from ..output.row_formats import Column

COLUMNS = (
    Column("recommended", "choose", text=lambda value: "yes" if value else "-"),
    Column("granularity", "granularity", text=lambda value: value.replace("_", " ")),
    Column("zone_rows", "zone rows", right=True, usual=lambda row: row["zone_rows"] is None),
    Column("units", "units", right=True, text=lambda value: f"{value:,}"),
    Column("values", "values", right=True, text=lambda value: f"{value:,}"),
    Column("bytes_a_value", "bytes a value", right=True, text=lambda value: f"{value:.2f}"),
    Column("num_bytes", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column(
        "text_share",
        "of the text",
        right=True,
        text=lambda value: f"{value:.0%}",
        usual=lambda row: row["text_share"] is None,
    ),
    Column("candidates", "named", right=True, text=lambda value: f"{value:.2f}"),
    Column("bytes_read", "reads", right=True, text=lambda value: f"{value:,}"),
    Column("pages_read", "pages", right=True, text=lambda value: "?" if value is None else f"{value:.1f}"),
    Column("bytes_read_without_pages", "or reads", right=True, text=lambda value: f"{value:,}"),
    Column("pieces", "pieces", usual=lambda row: True),  # a line below the table has them
    Column("piece_bytes", "piece bytes", usual=lambda row: True),
)


class IndexAdviseOptions(CommandOptions):
    lake: str = argument(
        "LAKE",
        "LAKE is a folder, a quoted pattern, a URL of either, or the folder of a Delta or Iceberg table.",
        type=click.Path(readable=False),
    )
    column: str = option(
        "NAME",
        "The column to index: a dotted path, or an expression as of `index create`.",
        required=True,
        shell_complete=complete_columns,
    )
    granularities: tuple[str, ...] = option(
        None,
        "Consider this granularity only. Repeatable. Default: all.",
        "--granularity",
        type=click.Choice(GRANULARITIES),
        multiple=True,
    )
    zone_rows: int | None = option("N", "Rows of a zone to consider, 8192 by default.", callback=parse_whole_number)
    sample: int = option(
        "N",
        "Files to read, spread over the lake: the estimates are made from them.",
        type=POSITIVE,
        default=SAMPLE,
    )


@command("index advise", IndexAdviseOptions)
def advise(output: Output, given: IndexAdviseOptions) -> int:
    """Estimate what an index of a column will cost by each granularity, and recommend one.

    All figures are estimates from a sample, of an index in the layout postings. Prints a row per granularity, then the
    command that creates the index.

    \b
    values    counted once per file, row group or zone
    named     files, row groups or zones that a lookup lists, on average, for
              a value that occurs
    reads     bytes of the column that are read to find the rows of one key,
              pages how many pages that is: of local files, and of files with
              a page index
    or reads  the same of files in an object store without a page index

    For grams(NAME) a piece of text of 12 bytes, or half of a shorter text,
    stands in place of a key, and the last lines say how well shorter and longer
    ones are found. Where an index would take more than a quarter of the bytes of
    the text, as of random ids, none is recommended.

    Exit codes: 0 a granularity is recommended, 1 no index is, 2 error.

    Example:
      parquet-bloom index advise lake/ --column user.id
      parquet-bloom index advise logs/ --column "grams(message)"
      parquet-bloom index advise s3://bucket/events --column id --granularity file --granularity zone --zone-rows 4096
    """  # noqa: D301
    with output.step("look at files"):
        advice = advise_index(
            given.lake,
            given.column,
            granularities=given.granularities or GRANULARITIES,
            zone_rows=given.zone_rows,
            sample=given.sample,
            lake_storage_options=output.storage_options,
        )
    with output.rows("granularities", COLUMNS) as rows:
        for one in advice.granularities:
            row = asdict(one) | {"zone_rows": one.zone_rows or None}
            row["pieces"] = {str(piece.length): piece.named for piece in one.pieces}
            row["piece_bytes"] = one.piece_length or None
            row["text_share"] = one.text_share or None
            rows.add(row | {"recommended": one.granularity == advice.recommended})
        rows.facts |= {"column": advice.column, "page_index": advice.page_index}
        rows.facts |= {"reason": advice.reason, "create_command": advice.command or None}
        rows.facts["totals"] = {"files": advice.files, "rows": advice.rows, "sampled_files": advice.sampled_files}
    output.remark(advice.reason)
    if pieces := advice.describe_pieces():
        output.remark(pieces)
    if advice.command:
        output.remark(advice.command)
    output.summary(f"by {count(advice.sampled_files, 'file')} of {advice.files:,}, about {count(advice.rows, 'row')}")
    return output.exit_code(BAD if advice.recommended is None else GOOD)
