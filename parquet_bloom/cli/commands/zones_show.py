"""`parquet-bloom zones show`: show the contents of a zone index, and whether its files have changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from ... import zones as library
from ...core.bloom.sbbf import measure
from ...util.messages import count
from ...zones.zone_builder import file_states
from ..command import CommandOptions, argument, command, flag, option
from ..output.output import Output
from ..output.row_formats import Column, Row


def _is_current(row: Row) -> bool:
    return row["state"] in (None, "current")


COLUMNS = (
    Column("fragment", "fragment", right=True, usual=lambda row: row["fragment"] is None),
    Column("row_groups", "row groups", right=True),
    Column("zones", "zones", right=True),
    Column("rows", "rows", right=True),
    Column("null_zones", "with nulls", right=True),
    Column("num_bytes", "bytes", right=True),
    Column("fill", "fill", right=True, text=lambda value: "-" if value is None else f"{value:.1%}"),
    Column("state", "state", usual=_is_current),
    Column("file", "file"),
)


class ZonesShowOptions(CommandOptions):
    path: str = argument(
        "INDEX",
        "INDEX is a file written by zones build, or one of the same schema; or a Lance dataset's folder or its "
        "bloomfilter.lance, which require the extra 'lance'.",
        type=click.Path(readable=False),
    )
    column: str | None = option("NAME", "The column of the index to show, if a Lance dataset has several.")
    no_live: bool = flag("Do not check whether the files have changed.")


@command("zones show", ZonesShowOptions)
def show(output: Output, given: ZonesShowOptions) -> int:
    """Show a zone index, a row per file, or a row per fragment of a Lance dataset.

    The zones of a file whose state is changed, gone or unknown are not used: all of it is read.

    Exit codes: 0 shown, 2 error.

    Example:
      parquet-bloom zones show ids.zones.parquet --json
      parquet-bloom zones show events.lance --column user
    """
    with output.step("open"):
        index = library.open(given.path, column=given.column, storage_options=output.storage_options)
    with index, output.progress(0) as bar:
        files = index.files
        states: list[str] | None = None
        if files is not None and not given.no_live:
            with output.step("look at files"):
                states = file_states(index, output.filesystem)
        groups = [*(_by_fragment(index) if files is None else _by_file(index))]
        totals = {"zones": len(index), "rows": 0, "null_zones": 0, "num_bytes": 0, "stale": 0}
        with output.step("read filters"), output.rows("zones", COLUMNS) as rows:
            for number, (row, ordinals) in enumerate(groups):
                zones = index.zones[ordinals]
                row["zones"], row["rows"] = len(zones), int(zones["zone_length"].sum())
                row["null_zones"] = int(zones["has_null"].sum())
                row["num_bytes"], row["fill"] = _measure_filters(index, ordinals)
                row["state"] = states[number] if states is not None else None
                for name in ("rows", "null_zones", "num_bytes"):
                    totals[name] += row[name]
                totals["stale"] += row["state"] not in (None, "current")
                rows.add(row)
                bar.update(number + 1, len(groups))
            rows.facts |= {"column": index.column, "items": index.items, "probability": index.probability}
            rows.facts |= {"type": None if index.column_type is None else str(index.value_type), "totals": totals}
            rows.facts["uncovered"] = [number for number, _ in index.uncovered]
    text = f"column {index.column or 'not known'}: {count(len(index), 'zone')}"
    text += f"; each filter is sized for {count(index.items, 'value')}, with fpp {index.probability:g}"
    if index.uncovered:
        text += f"; {count(len(index.uncovered), 'fragment')} not covered"
    if totals["stale"]:
        text += f"; zones of {count(totals['stale'], 'file')} are not used"
    output.summary(text)
    return output.exit_code()


def _by_file(index: library.ZoneIndex) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    for file in index.files or ():
        yield {"file": file.path, "fragment": None, "row_groups": file.row_groups}, index.zones_of(file.number).zones


def _by_fragment(index: library.ZoneIndex) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    fragments = index.zones["fragment_id"]
    order = np.argsort(fragments, kind="stable")
    numbers, firsts = np.unique(fragments[order], return_index=True)
    for number, ordinals in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True):
        yield {"file": None, "fragment": number, "row_groups": None}, ordinals


def _measure_filters(index: library.ZoneIndex, ordinals: np.ndarray) -> tuple[int, float | None]:
    """Return the number of bytes of some zones' filters, and the share of set bits."""
    num_bytes = bits = 0
    starts = np.flatnonzero(np.diff(ordinals, prepend=-2) != 1)
    for run in np.split(ordinals, starts[1:]) if len(ordinals) else ():
        for bitset in index.bitsets(int(run[0]), len(run)):
            num_bytes += bitset.nbytes
            bits += measure(bitset)[0]
    return num_bytes, bits / (8 * num_bytes) if num_bytes else None
