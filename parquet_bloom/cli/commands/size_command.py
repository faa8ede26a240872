"""`parquet-bloom size`: compute a filter's size from its number of values and false-positive probability."""

from __future__ import annotations

import math
from typing import Any

import click

from ...core.bloom.sizing import MAX_BYTES, fpp_for, size_for
from ..command import CommandOptions, command, option, usage_error
from ..options.shared_options import parse_whole_number
from ..output.output import Output
from ..output.row_formats import Column

FPPS = (0.1, 0.05, 0.01, 0.001, 0.0001)
_FACTORS = (0.1, 0.5, 2, 10)  # times the requested number of values

COLUMNS = (
    Column("asked", "", text=lambda value: ">" if value else ""),
    Column("ndv", "ndv", right=True, text=lambda value: f"{value:,}"),
    Column("fpp", "fpp", right=True, text=lambda value: f"{value:g}"),
    Column("num_bytes", "power of two", right=True, text=lambda value: f"{value:,}"),
    Column("real_fpp", "its real fpp", right=True),
    Column("exact_bytes", "exact", right=True, text=lambda value: f"{value:,}"),
    Column("bits_per_value", "bits a value", right=True, text=lambda value: "-" if value is None else f"{value:.1f}"),
)


class SizeOptions(CommandOptions):
    ndv: int = option("N", "Distinct values in the filter, such as 1e6.", required=True, callback=parse_whole_number)
    fpp: float = option(
        "FPP",
        "False-positive probability: the share of absent keys that the filter may let pass.",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.01,
    )


@command("size", SizeOptions, storage=False, totals=False)
def size(output: Output, given: SizeOptions) -> int:
    """Compute the size of a filter by the exact model, and show others around it.

    "power of two" is what embed writes by default; its real fpp is better than the requested one. "exact" is the
    smallest sufficient multiple of 32 bytes, which embed writes with --exact-size. Readers accept at most 128 MiB:
    filters that would be larger get a worse real fpp.

    Exit codes: 0 shown, 2 error.

    Example:
      parquet-bloom size --ndv 1e6 --fpp 0.01
    """
    ndv, fpp = given.ndv, given.fpp
    if math.isnan(fpp):  # which is in any range
        raise usage_error("fpp must be a number between 0 and 1, not nan")
    combinations = [(ndv, each) for each in sorted({*FPPS, fpp}, reverse=True)]
    combinations += [(number, fpp) for number in sorted({round(ndv * factor) for factor in _FACTORS} - {0, ndv})]
    with output.step("reckon"), output.rows("sizes", COLUMNS) as rows:
        for number, each in combinations:
            rows.add(_row(number, each) | {"asked": (number, each) == (ndv, fpp)})
        rows.facts |= {"ndv": ndv, "fpp": fpp}
    num_bytes = size_for(ndv, fpp)
    if num_bytes == MAX_BYTES and fpp_for(ndv, num_bytes) > fpp:
        output.remark(f"no filter is that large; with {MAX_BYTES:,} bytes the fpp is {fpp_for(ndv, num_bytes):.3g}")
    return output.exit_code()


def _row(ndv: int, fpp: float) -> dict[str, Any]:
    num_bytes, exact = size_for(ndv, fpp), size_for(ndv, fpp, power_of_two=False)
    return {
        "ndv": ndv,
        "fpp": fpp,
        "num_bytes": num_bytes,
        "real_fpp": fpp_for(ndv, num_bytes),
        "exact_bytes": exact,
        "bits_per_value": exact * 8 / ndv if ndv else None,
    }
