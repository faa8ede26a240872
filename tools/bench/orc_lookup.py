"""Look up one of 3,000,000 rows of an ORC file of 8 stripes: `read_table` against pyarrow's full read and pyorc.

python tools/bench/orc_lookup.py [--rows N] [--repeat N] [--output RESULTS.md]

Two files of the same rows, by pyarrow and by Spark, each with a Bloom filter on the id in every row group of 10,000:
a random int64 id, and 5 columns of payload (a timestamp, a 36-byte request id, one of 1,000 device names, a float64, a
decimal). Present and absent ids are looked up, another one each time; every answer is compared with the row that was
written. Only the page cache is kept between lookups.

The joint answer of a stripe's filters is measured at three false-positive rates: pyarrow, which reads complete stripes,
skips one only if none of its row groups says "maybe".
"""

from __future__ import annotations

import argparse
import math
import tempfile
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
import pyorc
from _common import header, in_turn, positive
from _results import record
from pyorc.predicates import PredicateColumn

import parquet_bloom
from parquet_bloom import orc
from parquet_bloom.scan.decode import orc_decoder as orc_rows

STRIPES = 8
STRIDE = 10_000
TARGET = 4
RATES = (0.05, 0.01, 0.001)
FULL = "pyarrow, full read and filter"
PREDICATE = "pyorc, its predicate"
GROUPS = "parquet_bloom, row groups (pyorc reads)"
WHOLE = "parquet_bloom, stripes (pyarrow reads)"


def make_table(num_rows: int) -> pa.Table:
    rng = np.random.default_rng(7)
    raw = rng.bytes(16 * 100_000)
    ids = pa.array([str(uuid.UUID(bytes=raw[16 * i : 16 * i + 16])) for i in range(100_000)])
    stamps = 1_700_000_000_000_000 + np.cumsum(rng.integers(1, 60_000_000, num_rows))
    return pa.table(
        {
            "id": rng.permutation(np.unique(rng.integers(-(2**62), 2**62, num_rows + 1000)))[:num_rows],
            "ts": pa.array(stamps, pa.timestamp("us")).cast(pa.timestamp("ns")),
            "request": ids.take(pa.array(rng.integers(0, len(ids), num_rows))),
            "device": ids[:1000].take(pa.array(rng.integers(0, 1000, num_rows))),
            "amount": rng.random(num_rows),
            "price": pa.array(rng.integers(0, 10**9, num_rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
        }
    )


def by_pyarrow(table: pa.Table, path: Path, fpp: float) -> None:
    """Write a file with the given number of stripes, by trying stripe sizes in bytes."""
    size = max(table.nbytes // STRIPES, 1 << 20)
    for _ in range(8):
        po.write_table(
            table, path, stripe_size=size, bloom_filter_columns=[1], bloom_filter_fpp=fpp, compression="zstd"
        )
        num_stripes = po.ORCFile(path).nstripes
        if num_stripes == STRIPES:
            return
        size = math.ceil(size * (num_stripes - 0.5) / (STRIPES - 0.5))
    print(f"{path.name} has {num_stripes} stripes, not {STRIPES}")


def by_spark(table: pa.Table, folder: Path, fpp: float) -> Path:
    import _spark

    source = folder / "rows.parquet"
    position = table.schema.get_field_index("ts")
    pq.write_table(table.set_column(position, "ts", table["ts"].cast(pa.timestamp("us", "UTC"))), source)
    written = folder / "spark"
    with _spark.session() as spark:
        options = {
            "orc.bloom.filter.columns": "id",
            "orc.bloom.filter.fpp": str(fpp),
            "orc.row.index.stride": str(STRIDE),
            "orc.stripe.row.count": str(table.num_rows // STRIPES),
            "orc.stripe.size": str(1 << 30),
            "compression": "zstd",
        }
        spark.read.parquet(str(source)).coalesce(1).write.options(**options).orc(str(written))
    source.unlink()
    (path,) = written.glob("*.orc")
    return path


# -------------------------------------------------------------------------------------------------------- the lookups


def full_read(path: Path, key: int) -> list[dict[str, Any]]:
    table = po.read_table(path)
    return table.filter(pc.equal(table["id"], key)).to_pylist()


def by_predicate(path: Path, key: int) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        reader = pyorc.Reader(
            file, predicate=PredicateColumn(pyorc.TypeKind.LONG, "id") == key, struct_repr=pyorc.StructRepr.DICT
        )
        return [row for row in reader if row["id"] == key]


def row_groups(path: Path, key: int) -> list[dict[str, Any]]:
    return parquet_bloom.read_table(path, [("id", "=", key)]).to_pylist()


def stripes(path: Path, key: int) -> list[dict[str, Any]]:
    with patch.object(orc_rows, "_SLOWER", 1 << 40):
        return row_groups(path, key)


def pruned(path: Path, key: int) -> None:
    parquet_bloom.prune(path, [("id", "=", key)])


LOOKUPS: dict[str, Callable[[Path, int], Any]] = {
    FULL: full_read,
    PREDICATE: by_predicate,
    WHOLE: stripes,
    GROUPS: row_groups,
    "  of it: prune": pruned,
}


class Keys:
    """Yield present ids with their rows, or absent ones."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._rng = np.random.default_rng(3)
        self._sorted_ids = np.sort(table["id"].to_numpy())

    def present(self) -> Iterator[tuple[int, int | None]]:
        while True:
            row = int(self._rng.integers(self._table.num_rows))
            yield self._table["id"][row].as_py(), row

    def absent(self) -> Iterator[tuple[int, int | None]]:
        while True:
            key = int(self._rng.integers(-(2**61), 2**61))
            row = np.searchsorted(self._sorted_ids, key)
            if self._sorted_ids[min(row, len(self._sorted_ids) - 1)] != key:
                yield key, None


def measure(path: Path, table: pa.Table, repeat: int) -> None:
    keys = Keys(table)
    with orc.open(path) as file:
        written = f"{file.writer} {file.software_version or ''}".strip()
        print(
            f"{path.name}: by {written}, {path.stat().st_size / 1e6:.0f} MB, {len(file.stripes)} stripes, "
            f"{len(file.row_groups)} row groups, {file.compression}"
        )
    for kind, ids in (("there", keys.present()), ("not there", keys.absent())):
        key, row = 0, None
        answers: dict[str, Any] = {}

        def another() -> None:
            nonlocal key, row
            key, row = next(ids)  # noqa: B023

        def run(name: str) -> Callable[[], None]:
            def runs() -> None:
                answers[name] = LOOKUPS[name](path, key)  # noqa: B023

            return runs

        def check() -> None:
            """Check each engine's last answer, outside of the timed part."""
            for name, answer in answers.items():  # noqa: B023
                if answer is not None and [each["id"] for each in answer] != ([] if row is None else [key]):  # noqa: B023
                    raise SystemExit(f"{name} found {answer} for id {key}, which is {kind}")  # noqa: B023

        def before() -> None:
            check()
            another()
            answers.clear()  # noqa: B023

        another()
        for name in LOOKUPS:
            run(name)()
        seconds = in_turn({name: run(name) for name in LOOKUPS}, repeat, before=before)
        check()
        print(f"  the id is {kind}; medians of {repeat} lookups in turn")
        for name, taken in seconds.items():
            print(f"    {name:42} {taken * 1e3:9.1f} ms  {seconds[FULL] / taken:6.1f} x")
        best, complete = seconds[FULL] / seconds[GROUPS], seconds[FULL] / seconds[WHOLE]
        print(
            f"    ratio {best:.1f} x faster than pyarrow, {seconds[PREDICATE] / seconds[GROUPS]:.1f} x than pyorc; "
            f"without pyorc {complete:.1f} x (asked: at least {TARGET})"
        )
    print()


def tell_rates(table: pa.Table, folder: Path, num_keys: int) -> None:
    """Return the number of stripes and row groups to read for absent keys."""
    print(f"stripes and row groups left to {num_keys} ids that are not there")
    print("     fpp   bytes of filters   row groups      stripes    predicted")
    absent = Keys(table).absent()
    ids = table.select(["id"])
    for rate in RATES:
        path = folder / f"rate-{rate}.orc"
        by_pyarrow(ids, path, rate)
        with orc.open(path) as file:
            size = sum(one.num_bits // 8 for one in file.filters(["id"]))
            of_stripe = [one.stripe for one in file.row_groups]
        predicted = sum(1 - (1 - rate) ** of_stripe.count(stripe) for stripe in set(of_stripe)) / len(set(of_stripe))
        left_groups = left_stripes = 0
        for _ in range(num_keys):
            key, _ = next(absent)
            report = parquet_bloom.prune(path, [("id", "=", key)])
            chosen = [number for numbers in report.selected.values() for number in numbers]
            left_groups += len(chosen)
            left_stripes += len({of_stripe[number] for number in chosen})
        in_groups, in_stripes = len(of_stripe) * num_keys, len(set(of_stripe)) * num_keys
        print(
            f"  {rate:6.3f}   {size / 1e6:13.1f} MB   {left_groups / in_groups:8.2%}   {left_stripes / in_stripes:8.1%}"
            f"     {predicted:8.1%}"
        )
        path.unlink()
    print(f"predicted: 1 - (1 - fpp)^n for a stripe of n row groups, here {len(of_stripe) / len(set(of_stripe)):.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=positive, default=3_000_000)
    parser.add_argument("--repeat", type=positive, default=9, help="lookups of each kind")
    parser.add_argument("--keys", type=positive, default=200, help="number of keys for measuring false-positive rates")
    parser.add_argument("--output", type=Path, default=None, help="file of results to store the output in")
    options = parser.parse_args()
    with record(options.output, "orc_lookup"), tempfile.TemporaryDirectory() as name:
        folder, table = Path(name), make_table(options.rows)
        header(
            f"one id among {options.rows:,} rows of an ORC file",
            f"data     {table.num_columns} columns, {table.nbytes / 1e6:.0f} MB in memory; filters on id: fpp 0.01",
            f"peers    pyarrow {version('pyarrow')}, pyorc {version('pyorc')}; a file by pyspark {version('pyspark')}",
        )
        by_pyarrow(table, folder / "pyarrow.orc", 0.01)
        spark = by_spark(table, folder, 0.01).rename(folder / "spark.orc")
        for path in (folder / "pyarrow.orc", spark):
            measure(path, table, options.repeat)
        tell_rates(table, folder, options.keys)


if __name__ == "__main__":
    main()
