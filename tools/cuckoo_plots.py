"""Draw docs/explanation/cuckoo.svg from measurements: how many buckets aligned Cuckoo filters should have.

Left: bytes read by a lookup, and its time from the page cache, by the number of buckets, of UNITS files of VALUES
values. Right: the share of slots in use, by the number of buckets, of one file of LARGE values.

python tools/cuckoo_plots.py    requires matplotlib, which the extra `bench` installs
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from parquet_bloom.core.index.cuckoo import Group, Layout  # noqa: E402 - the package of this checkout
from parquet_bloom.lake.cuckoo_reader import CuckooReader  # noqa: E402
from parquet_bloom.lake.cuckoo_writer import CuckooWriter  # noqa: E402

TARGET = PROJECT / "docs" / "explanation" / "cuckoo.svg"
UNITS, VALUES, LARGE = 100_000, 100, 100_000
BITS, LOOKUPS = 16, 200


def hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def lookups(folder: Path) -> list[tuple[int, float, float]]:
    """Measure lookups: (buckets, MB read, median microseconds)."""
    results = []
    for buckets in (8, 11, 15, 20, 26, 34, 38, 50, 68, 100):
        path = str(folder / f"{buckets}.cuckoo")
        writer = CuckooWriter(path, num_buckets=buckets, fingerprint_bits=BITS)
        for unit in range(UNITS):
            writer.add(unit, hashes(VALUES, unit))
        writer.finish(UNITS)
        writer.close()
        reader = CuckooReader(path)
        queries = hashes(LOOKUPS, 7)
        seconds, read = [], 0
        for value in queries:
            started = time.perf_counter()
            answer = reader.find(value[None])
            seconds.append(time.perf_counter() - started)
            read += answer.bytes_read
        reader.close()
        results.append((buckets, read / LOOKUPS / 1e6, 1e6 * statistics.median(seconds)))
        print(f"{buckets:4} buckets: {results[-1][1]:.2f} MB, {results[-1][2]:,.0f} us", file=sys.stderr)
    return results


def occupancies() -> list[tuple[int, float]]:
    """Measure one file: (buckets, share of slots in use)."""
    values = hashes(LARGE, 1)
    results = []
    for buckets in range(1_000, 100_001, 500):
        group = Group(Layout(buckets, BITS))
        group.add(values)
        results.append((buckets, LARGE / (buckets * group.close_unit())))
    return results


def draw(of_lookups: list[tuple[int, float, float]], of_slots: list[tuple[int, float]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "parquet_bloom", "font.size": 9}
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    buckets = [one[0] for one in of_lookups]
    left.plot(buckets, [one[1] for one in of_lookups], "o-", color="#2a6f97", label="MB read")
    left.set(xlabel="buckets", ylabel="MB read a lookup", ylim=0, title=f"{UNITS:,} files of {VALUES} values")
    time_axis = left.twinx()
    time_axis.plot(buckets, [one[2] for one in of_lookups], "s--", color="#c8553d", label="us")
    time_axis.set(ylabel="microseconds a lookup, warm", ylim=0)
    right.plot([one[0] for one in of_slots], [one[1] for one in of_slots], color="#2a6f97", linewidth=1)
    right.set(xlabel="buckets", ylabel="share of slots in use", ylim=(0, 1), title=f"one file of {LARGE:,} values")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(TARGET, metadata={"Date": None})
    text = TARGET.read_text()
    TARGET.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        draw(lookups(Path(folder)), occupancies())
    print(f"{TARGET.relative_to(PROJECT)}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
