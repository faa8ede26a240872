"""Plot the filters of a column: their false-positive probability by size, with the curve of the model."""

from __future__ import annotations

import math
from statistics import median

from ...core.bloom.sizing import BLOCK_BYTES, fpp_for
from ...util.messages import format_bytes
from .details import MeasuredFilter
from .grid import format_percent
from .svg import escape_text

_WIDTH, _HEIGHT = 380, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 26, 12, 34
_LOWEST = 1e-6
_DOTS = 200


def render_curve(column: str, filters: list[MeasuredFilter], asked_fpp: float | None) -> str:
    """Render an SVG: bytes to the right, false-positive probability upwards, a curve for the median number of values.

    Parameters
    ----------
    column, filters : the measured filters of a column, at least one.
    asked_fpp : the probability that the filters were made for, drawn as a line; None for none.
    """
    sizes = [filter.num_bytes for filter in filters]
    finite = [filter.ndv for filter in filters if math.isfinite(filter.ndv)]
    ndv = median(finite) if finite else 0.0
    first = max(5, math.floor(math.log2(max(32, min(sizes)))) - 4)
    last = min(27, math.ceil(math.log2(max(sizes))) + 3)

    def x(num_bytes: float) -> float:
        return _LEFT + (math.log2(num_bytes) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(fpp: float) -> float:
        return _TOP + math.log10(max(_LOWEST, min(1.0, fpp))) / math.log10(_LOWEST) * (_HEIGHT - _TOP - _BOTTOM)

    def tick(at_x: float, at_y: float, text: str, anchor: str = "end", kind: str = "tick") -> str:
        return f'<text class="{kind}" x="{at_x:g}" y="{at_y:g}" text-anchor="{anchor}">{text}</text>'

    parts = [f"<title>{escape_text(f'{column}: false-positive probability against bytes')}</title>"]
    for power in range(0, -7, -1):
        at = y(10.0**power)
        parts.append(f'<path class="rule" d="M{_LEFT} {at:g}H{_WIDTH - _RIGHT}"/>')
        if power % 2 == 0:
            parts.append(tick(_LEFT - 6, at + 4, format_percent(10.0**power)))
    for exponent in range(first, last + 1, max(1, (last - first) // 4)):
        parts.append(tick(x(2**exponent), _HEIGHT - 16, _format_binary(2**exponent), "middle"))
    parts.append(tick(_WIDTH - _RIGHT, _HEIGHT - 3, "bytes of a filter"))
    points = []
    for step in range((last - first) * 8 + 1):
        num_bytes = round(2 ** (first + step / 8) / BLOCK_BYTES) * BLOCK_BYTES
        fpp = fpp_for(ndv, num_bytes)
        points.append(f"{x(num_bytes):.1f} {y(fpp):.1f}")
        if fpp < _LOWEST:
            break
    parts.append(f'<path class="line" d="M{"L".join(points)}"/>')
    if asked_fpp is not None:
        at = y(asked_fpp)
        parts.append(f'<path class="asked" d="M{_LEFT} {at:g}H{_WIDTH - _RIGHT}"/>')
        parts.append(tick(_WIDTH - _RIGHT, at - 4, f"asked: {format_percent(asked_fpp)}", kind="tick strong"))
    for filter in filters[:: max(1, len(filters) // _DOTS)]:
        parts.append(f'<circle class="dot" cx="{x(max(32, filter.num_bytes)):.1f}" cy="{y(filter.fpp):.1f}" r="3.5"/>')
    label = f"{column}: {describe_filters(filters)}"
    return (
        f'<svg class="curve" role="img" aria-label="{escape_text(label)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(parts)}</svg>'
    )


def describe_filters(filters: list[MeasuredFilter]) -> str:
    """Describe the filters of a column in one line."""
    fpps = sorted(filter.fpp for filter in filters)
    finite = [filter.ndv for filter in filters if math.isfinite(filter.ndv)]
    values = f"{median(finite):,.0f} distinct values" if finite else "full"
    return (
        f"median {format_bytes(int(median(filter.num_bytes for filter in filters)))}, {values}, "
        f"fpp {format_percent(median(fpps))}" + (f", worst {format_percent(fpps[-1])}" if len(fpps) > 1 else "")
    )


def _format_binary(num_bytes: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if num_bytes >= factor:
            return f"{num_bytes // factor} {unit}"
    return f"{num_bytes} B"
