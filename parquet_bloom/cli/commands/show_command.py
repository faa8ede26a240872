"""`parquet-bloom show`: list filters, including broken ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...core.bloom.variants import FINAL_NAME
from ...errors import EncryptedFileError, ParquetBloomError, UnknownColumnError
from ...file.bloom_file import BloomFile, parse_variant
from ...file.chunk_filter import ChunkFilter
from ...file.file_columns import AnyLeaf, find_columns
from ...metadata.filter_header import ALGORITHMS, COMPRESSIONS, HASHES, hash_name
from ...metadata.writer_rules import Doubt
from ...scan.model.data_file import open_any
from ...storage import open_source
from ...util.messages import count
from ..command import CommandOptions, command, group, option
from ..options.shared_options import OPTIONAL_PATHS, VARIANT, columns_option
from ..options.table_options import TableVersion, find_inputs
from ..output.output import Output
from ..output.row_formats import PROBLEM, STRIPE, Column, text_or_blank

if TYPE_CHECKING:
    from ...orc import OrcFile, OrcFilter


def _has_standard_name(key: str, names: dict[int, str]) -> Any:
    return lambda row: row[key] in (None, *names.values())


def _is_orc(row: Any) -> bool:
    return row["stripe"] is not None


def _is_parquet(row: Any) -> bool:
    return row["stripe"] is None


COLUMNS = (
    Column("file", "file"),
    Column("row_group", "row group", right=True),
    STRIPE,
    Column("column", "column"),
    Column("type", "type"),
    Column("stream", "stream", usual=_is_parquet),
    Column("offset", "offset", right=True, usual=_is_orc),
    Column("length", "length", right=True, usual=_is_orc),
    Column("num_bytes", "bytes", right=True),
    Column("algorithm", "algorithm", usual=_has_standard_name("algorithm", ALGORITHMS)),
    Column("hash", "hash", usual=_has_standard_name("hash", HASHES)),
    Column("compression", "compression", usual=_has_standard_name("compression", COMPRESSIONS)),
    Column("variant", "variant", usual=lambda row: row["variant"] in (None, FINAL_NAME)),
    Column("num_blocks", "blocks", right=True, usual=_is_orc),
    Column("num_hash_functions", "k", right=True, usual=_is_parquet),
    Column("fill", "fill", right=True, text=lambda value: "-" if value is None else f"{value:.3f}"),
    Column("fpp", "fpp", right=True),
    Column("ndv_estimate", "ndv", right=True, text=lambda value: "-" if value is None else f"{value:.0f}"),
    Column("doubt", "not asked, as", text=text_or_blank, usual=lambda row: row["doubt"] is None, folds=True),
    PROBLEM,
)


class ShowOptions(CommandOptions):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    table = group(TableVersion)
    columns: tuple[str, ...] = columns_option(
        "Show the filters of this column only. It is a dotted path; a group means all columns in it. Repeatable."
    )
    row_groups: tuple[int, ...] = option(
        "N",
        "Show the filters of this row group of each file only. They are counted from 0, in ORC files across stripes. "
        "Repeatable.",
        "--row-group",
        type=click.IntRange(min=0),
        multiple=True,
    )
    variant: str | None = VARIANT


@command("show", ShowOptions)
def show(output: Output, given: ShowOptions) -> int:
    """Show the filters of Parquet and ORC files, a row each: offset, header, size, fill, false-positive probability.

    fpp and ndv (distinct values) are estimated from the bits that are set. The format of a file is detected from its
    content, not its name. Row groups of ORC files are numbered across stripes; filters that are useless because of
    known writer bugs are marked. Columns of a table have the names that it gives them. The last line, and "distrusted"
    in JSON, say of which columns of Parquet files not all is believed, since their writer is known to get it wrong.
    "dictionaries" in JSON has the columns whose dictionaries hold all values, with the number of such row groups: they
    rule out row groups as filters do.

    Exit codes: 0 shown (the row of a broken filter says what is broken), 2 error.

    Example:
      parquet-bloom show lake/ --column user.id
      parquet-bloom show a.parquet --row-group 0 --json
    """
    columns, row_groups = given.columns, given.row_groups
    inputs = find_inputs(given.paths, given.table, output)
    missing = set(columns)
    highest = -1
    totals = {"files": 0, "filters": 0, "broken": 0, "doubtful": 0, "num_bytes": 0}
    distrusted: list[dict[str, str]] = []
    dictionaries: Counter[str] = Counter()
    with output.rows("filters", COLUMNS) as rows, output.progress(len(inputs.files)) as bar:
        for file in bar.track(inputs.files):
            with (
                output.collect_errors(),
                output.step("read filters"),
                open_source(file.path, output.filesystem) as source,
            ):
                opened = open_any(source, inputs.footers, parse_variant(given.variant))
                totals["files"] += 1
                highest = max(highest, len(opened.row_groups) - 1)
                distrusted += _list_distrusted(opened, columns)
                if isinstance(opened, BloomFile):
                    dictionaries.update(_list_dictionaries(opened, columns, row_groups))
                for row in _rows(opened, columns, row_groups, missing):
                    totals["filters"] += 1
                    totals["broken"] += row["problem"] is not None
                    totals["doubtful"] += row["doubt"] is not None
                    totals["num_bytes"] += 0 if row["problem"] else row["num_bytes"]
                    rows.add(row)
        if totals["files"]:
            _report_missing(
                output, sorted(missing), [number for number in row_groups if number > highest], totals["files"]
            )
        in_dictionaries = [{"column": name, "row_groups": number} for name, number in dictionaries.items()]
        rows.facts |= {"totals": totals, "dictionaries": in_dictionaries, "distrusted": distrusted} | inputs.facts
    filters = count(totals["filters"], "filter") if totals["filters"] else "no filters"
    output.summary(
        f"{filters} in {count(totals['files'], 'file')}"
        + (f", {totals['num_bytes']:,} bytes" if totals["filters"] else "")
        + (f", {totals['broken']:,} of them broken" if totals["broken"] else "")
        + (f", {totals['doubtful']:,} of them not asked" if totals["doubtful"] else "")
        + (f"; dictionaries hold all values of {count(len(dictionaries), 'column')}" if dictionaries else "")
        + _summarize_distrusted(distrusted)
    )
    return output.exit_code()


def _list_distrusted(file: BloomFile | OrcFile, columns: Collection[str]) -> list[dict[str, str]]:
    """Return the columns of a Parquet file, or those of some names, of which not all that its writer says is used."""
    if not isinstance(file, BloomFile) or not file.footer.writer_rules.rules:
        return []
    chosen = [leaf for name in columns for leaf in find_columns(file.leaves, name)] if columns else file.leaves
    doubts = [(leaf.name, file.footer.describe_doubts(leaf)) for leaf in chosen]
    return [{"file": file.path, "column": name, "doubt": doubt} for name, doubt in doubts if doubt]


def _list_dictionaries(file: BloomFile, columns: Collection[str], row_groups: Collection[int]) -> Iterator[str]:
    """Yield a column for each row group in which its dictionary has all of its values."""
    chosen = [leaf for name in columns for leaf in find_columns(file.leaves, name)] if columns else file.leaves
    names = {leaf.index: leaf.name for leaf in chosen}
    for record in file.footer.chunks[file.footer.chunks["dictionary_only"] == 1]:
        if int(record["column"]) in names and (not row_groups or int(record["row_group"]) in row_groups):
            yield names[int(record["column"])]


def _summarize_distrusted(distrusted: list[dict[str, str]]) -> str:
    if not distrusted:
        return ""
    files = count(len({one["file"] for one in distrusted}), "file")
    columns, first = count(len(distrusted), "column"), distrusted[0]
    return f"; not all is believed of {columns} in {files}, first of '{first['column']}': {first['doubt']}"


def _rows(
    file: BloomFile | OrcFile, columns: Collection[str], row_groups: Collection[int], missing: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row per filter.

    Parameters
    ----------
    columns, row_groups : columns and row groups to show, in ORC files numbered across stripes; all if empty.
    missing : names that no file had so far; those that this file has are removed.
    """
    if not isinstance(file, BloomFile):
        names = [leaf.name for leaf in _choose(file.leaves, columns, missing)]
        numbers = {(group.stripe, group.row_group): group.number for group in file.row_groups}
        for each in file.filters(names) if names else ():
            number = numbers.get((each.stripe, each.row_group))
            if not row_groups or number in row_groups:
                yield _make_orc_row(file, each, number)
        return
    leaves = _choose(file.leaves, columns, missing)
    for row_group in file.row_groups:
        if not row_groups or row_group in row_groups:
            for leaf in leaves:
                try:
                    chunk = file.chunk(row_group, leaf)
                except EncryptedFileError:  # the chunk's metadata is encrypted, and with it the filter's offset
                    if columns:
                        raise
                    continue
                if chunk is not None:
                    yield _make_row(file, chunk)


def _choose(leaves: Sequence[AnyLeaf], columns: Collection[str], missing: set[str]) -> Sequence[AnyLeaf]:
    if not columns:
        return leaves
    matches = {name: find_columns(leaves, name) for name in columns}
    missing.difference_update(name for name, found in matches.items() if found)
    chosen = {id(leaf) for found in matches.values() for leaf in found}
    return [leaf for leaf in leaves if id(leaf) in chosen]


def _make_orc_row(file: OrcFile, one: OrcFilter, number: int | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(column.key for column in COLUMNS)
    row |= {"file": file.path, "row_group": number, "column": one.column, "type": one.leaf.column_type.name}
    row |= {"stripe": one.stripe, "stream": one.kind, "doubt": one.fault, "problem": one.problem}
    if one.num_bits:
        row |= {"num_bytes": one.num_bits // 8, "num_hash_functions": one.num_hash_functions}
        row |= {"fill": one.fill, "fpp": one.fpp, "ndv_estimate": one.ndv_estimate}
    return row


def _make_row(file: BloomFile, chunk: ChunkFilter) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(column.key for column in COLUMNS)
    row |= {"file": file.path, "row_group": chunk.row_group, "column": chunk.column, "type": str(chunk.column_type)}
    row |= {"offset": chunk.offset, "length": chunk.length}
    if file.footer.doubts_of(chunk.leaf) & Doubt.FILTERS:
        row["doubt"] = file.footer.describe_doubts(chunk.leaf)
    try:
        header = chunk.header
        row |= {"num_bytes": header.num_bytes, "num_blocks": max(0, chunk.num_blocks)}
        row |= {"algorithm": header.algorithm, "hash": header.hash, "compression": header.compression}
        if not chunk.header_problem:
            row |= {"variant": chunk.variant.name, "hash": hash_name(header, chunk.variant)}
        row |= {"fill": chunk.fill, "fpp": chunk.fpp, "ndv_estimate": chunk.ndv_estimate}
    except ParquetBloomError as error:
        row["problem"] = error.problem
    return row


def _report_missing(output: Output, columns: list[str], row_groups: list[int], files: int) -> None:
    """Report the columns and row groups that no file has: most likely they were mistyped."""
    where = "the file" if files == 1 else f"any of {files:,} files"
    for name in columns:
        output.fail(UnknownColumnError(f"no such column in {where}", column=name))
    for number in row_groups:
        output.fail(UnknownColumnError(f"no row group {number} in {where}"))
