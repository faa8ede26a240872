"""The tables of the kernel benchmark, and its performance targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

SIZES = {"32K": 32 << 10, "1M": 1 << 20, "16M": 16 << 20, "128M": 128 << 20}
HUGE = 2 << 20  # bytes: smaller filters fit into the L2 cache, and have no huge page
ARROWS = ("Arrow batch", "Arrow single")
LIMITS = ("limit read", "limit mask")
PEERS = (*ARROWS, "parquet-java", *LIMITS)


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    size: str
    kind: str
    operation: str
    threads: int


Times = dict[str, float]  # peer -> nanoseconds per key


COLUMNS = "{:>5} {:>10} {:>10} {:>7} |{:>7} {:>8} {:>8} {:>8} {:>6} {:>6} |{:>7} {:>7} {:>6} {:>6}"


def best_arrow(times: Times) -> float:
    return min(times[name] for name in ARROWS if name in times)


def ratios(times: Times, path: str) -> dict[str, float]:
    """Return the times of Arrow's best and parquet-java relative to ours, and ours relative to the limits."""
    ours = times[path]
    compared = {"arrow": best_arrow(times) / ours} if any(name in times for name in ARROWS) else {}
    if "parquet-java" in times:
        compared["java"] = times["parquet-java"] / ours
    return compared | {name: ours / times[name] for name in LIMITS if name in times}


def print_table(results: dict[Case, Times], path: str) -> None:
    print(f"parquet_bloom's {path} kernels, ns a key\n")
    print(COLUMNS.format(*[""] * 5, *["Arrow"] * 2, "parquet", *["limit"] * 2, "Arrow", "java", *["ours /"] * 2))
    print(
        COLUMNS.format(
            "size", "keys", "operation", "threads", "ours", "batch", "single", "-java", "read", "mask",
            "/ ours", "/ ours", "read", "mask",
        )
    )  # fmt: skip
    before = None
    for case, times in sorted(results.items(), key=lambda item: item[0].threads):
        if before not in (None, (case.threads, case.kind)):
            print()
        before = (case.threads, case.kind)
        figures = [_figure(times.get(name), ".2f") for name in (path, *PEERS)]
        values_of = ratios(times, path)
        compared = [_figure(values_of.get(name), ".1f") for name in ("arrow", "java")]
        compared += [_figure(values_of.get(name), ".2f") for name in LIMITS]
        print(COLUMNS.format(case.size, case.kind, case.operation, case.threads, *figures, *compared))
    print()


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


@dataclass(frozen=True)
class Target:
    """A target of the kernels, by path: a minimum for the ratios of peers, a maximum for the ratio to the limit."""

    what: str
    ratio: str  # key of `ratios`
    bounds: dict[str, float]
    holds: Callable[[Case], bool]


TARGETS = (
    Target("int64 insert, Arrow / ours", "arrow", {"avx512": 6, "avx2": 3.5}, lambda c: _is(c, "int64", "insert")),
    Target("int64 check, Arrow / ours", "arrow", {"avx512": 4, "avx2": 2.3}, lambda c: _is(c, "int64", "check")),
    Target("36-byte insert, Arrow / ours", "arrow", {"avx512": 4, "avx2": 1.8}, lambda c: _is(c, "36-byte", "insert")),
    Target("36-byte check, Arrow / ours", "arrow", {"avx512": 3.3, "avx2": 1.3}, lambda c: _is(c, "36-byte", "check")),
    Target("int64, parquet-java / ours", "java", {"avx512": 10, "avx2": 6}, lambda c: _is(c, "int64")),
    Target("36-byte, parquet-java / ours", "java", {"avx512": 8, "avx2": 3}, lambda c: _is(c, "36-byte")),
    *(
        Target(
            f"int64 below 2 MiB, ours / {limit}", limit, {"avx512": 1.3, "avx2": 2.2}, lambda c: _is_near(c, "int64")
        )
        for limit in LIMITS
    ),
)


def _is(case: Case, kind: str, operation: str = "") -> bool:
    return case.kind == kind and case.operation.startswith(operation) and case.threads == 1


def _is_near(case: Case, kind: str) -> bool:
    return _is(case, kind) and SIZES[case.size] < HUGE


def verdicts(results: dict[Case, Times], path: str) -> Iterator[tuple[str, float, float, str, bool]]:
    """Format the target, its bound, the worst figure, its case, and whether it is met; nothing for other paths."""
    for target in TARGETS:
        if path not in target.bounds:
            continue
        figures = {}
        for case, times in results.items():
            values_of = ratios(times, path)
            if target.holds(case) and target.ratio in values_of:
                figures[case] = values_of[target.ratio]
        if figures:
            at_most = target.ratio in LIMITS
            worst = (max if at_most else min)(figures, key=figures.__getitem__)
            bound = target.bounds[path]
            good = figures[worst] <= bound if at_most else figures[worst] >= bound
            yield target.what, bound, figures[worst], f"{worst.size} {worst.operation}", good


def print_verdicts(results: dict[Case, Times], path: str) -> None:
    lines = list(verdicts(results, path))
    if lines:
        print(f"{'asked of one thread on ' + path:36} {'bound':>6} {'worst':>6}  at")
    for what, bound, worst, where, good in lines:
        print(f"{what:36} {bound:6.1f} {worst:6.2f}  {where:16} {'ok' if good else 'SHORT'}")
    if lines:
        print()


def print_boundary(measured: dict[str, dict], path: str) -> None:
    """Print the overhead of calls from Python, in a filter of 1 MiB."""
    columns = [(kind, length) for kind, values_of in measured.items() for length in values_of["entrances"]]
    if not columns:
        return
    print(f"{path} from Python, 1 MiB, ns a key; values a call:")
    print(f"{'':22}" + "".join(f"{kind + ' ' + format(int(length), ','):>20}" for kind, length in columns))
    for name in next(iter(measured.values()))["entrances"]["1000"]:
        figures = (measured[kind]["entrances"][length][name] for kind, length in columns)
        print(f"{name:22}" + "".join(f"{figure:20.2f}" for figure in figures))
    for kind, values_of in measured.items():
        print(f"one `value in filter`, {kind}: {values_of['scalar']:.0f} ns (asked: at most 100)")
    print()
