"""core/decode/orc_lengths.pyx: lengths of texts and lists in ORC files, beside a slow twin."""

from __future__ import annotations

from support.oracle import orc_runs
from taking import is_compared

from parquet_bloom.core.decode.orc_lengths import sum_lengths

ALLOWED = (ValueError,)
MAX_INPUT = 512
_MOST = ((1 << 62) - 1, (1 << 31) - 1, 1000, 0)


def run(data: bytes) -> None:
    if not data:
        return
    second, most, data = bool(data[0] & 1), _MOST[data[0] >> 1 & 3], data[1:]
    expected = None
    if is_compared(data):
        try:
            lengths = orc_runs.lengths_in(data, second)
            expected = sum(lengths) if max(lengths, default=0) <= most else most + 1
        except orc_runs.Refused:
            expected = -1
    try:
        result = sum_lengths(data, second, most)
    except ValueError:
        assert expected is None or not 0 <= expected <= most, f"{expected} is refused"
        raise
    assert expected is None or result == expected, f"{result} instead of {expected}"


def seeds() -> list[bytes]:
    first = [orc_runs.first_run(7, 1, 20), orc_runs.first_run(200, -2, 90), orc_runs.first_literals([1, 300, 70_000])]
    second = [
        orc_runs.short_repeat(5, 1, 10),
        orc_runs.short_repeat(70_000, 3, 3),
        orc_runs.direct([1, 5, 3, 0, 9] * 7, 4),
        orc_runs.direct([2**40, 5], 64),
        orc_runs.patched([1, 2, 3, 4, 5, 6], 4, 10, 1, 8, 2, [(2, 200), (1, 3)]),
        orc_runs.patched([1] * 300, 3, -1, 2, 5, 8, [(255, 0), (9, 7)]),
        orc_runs.delta(10, 1, [0] * 30, 0),
        orc_runs.delta(3000, -10, [5, 9, 1, 0], 4),
    ]
    return [b"\0" + stream for stream in [*first, b"".join(first)]] + [
        b"\1" + stream for stream in [*second, b"".join(second)]
    ]
