"""Read many rows: scans in which filters bring nothing, beside engines that scan the same files.

python tools/bench/many_rows.py [--repeat N]

small    500 files of 2,000 rows
groups   20 files of 5 row groups of 10,000 rows
large    4 files of 2 row groups of 250,000 rows

The columns are a random int64, two of few values and a random float64; the result has the first and the last one, as
Arrow's table. Each engine lists the files anew. Medians in ms, all in turn; files are in the page cache; rows and sums
must be equal.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from _common import header, in_turn, positive

import parquet_bloom

LAKES = {"small": (500, 2_000, 2_000), "groups": (20, 50_000, 10_000), "large": (4, 500_000, 250_000)}
"""Files, rows of a file, and rows of a row group."""

COLUMNS = ["id", "v"]
QUERIES = {
    "a tenth, by equality": "g = 3",
    "a quarter, by equality": "few = 1",
    "a third, by a range": "v < 0.3",
    "all": None,
}
EXPRESSIONS = {"g = 3": ("g", 3), "few = 1": ("few", 1), "v < 0.3": ("v", 0.3)}


def make_lake(folder: Path, files: int, rows: int, row_group: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(11)
    for number in range(files):
        table = pa.table(
            {
                "id": rng.integers(0, 2**62, rows),
                "g": rng.integers(0, 10, rows),
                "few": rng.integers(0, 4, rows),
                "v": rng.random(rows),
            }
        )
        pq.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=row_group)


def make_runs(folder: Path, where: str | None) -> dict[str, Callable[[], pa.Table]]:
    """Return what reads the rows, by engine."""
    name, value = EXPRESSIONS.get(where or "", ("", 0.0))
    expression = None if where is None else (pc.field(name) < value if name == "v" else pc.field(name) == value)
    column = pl.lit(True) if where is None else (pl.col(name) < value if name == "v" else pl.col(name) == value)
    lake = parquet_bloom.dataset(folder)
    sql = f"SELECT id, v FROM read_parquet('{folder}/*.parquet') WHERE {where or 'true'}"
    return {
        "parquet_bloom": lambda: lake.scan(where, COLUMNS).to_arrow(),
        "pyarrow": lambda: pads.dataset(folder).to_table(columns=COLUMNS, filter=expression),
        "DuckDB": lambda: duckdb.sql(sql).to_arrow_table(),
        "polars": lambda: pl.scan_parquet(folder / "*.parquet").filter(column).select(COLUMNS).collect().to_arrow(),
    }


def measure(name: str, folder: Path, repeat: int) -> None:
    for title, where in QUERIES.items():
        runs = make_runs(folder, where)
        totals = {
            engine: (rows.num_rows, pc.sum(rows["id"]).as_py()) for engine, rows in ((n, r()) for n, r in runs.items())
        }
        assert len({*totals.values()}) == 1, totals
        times = in_turn(runs, repeat)
        ours, best = (
            times["parquet_bloom"],
            min(seconds for engine, seconds in times.items() if engine != "parquet_bloom"),
        )
        figures = "".join(f"{1e3 * times[engine]:>14.1f}" for engine in runs)
        print(f"{name:8}{title:24}{figures}{ours / times['pyarrow']:>12.2f}{ours / best:>9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=positive, default=9)
    arguments = parser.parse_args()
    header(
        "many rows, in ms",
        f"peers    pyarrow {pa.__version__}, duckdb {duckdb.__version__}, polars {pl.__version__}",
        f"medians  of {arguments.repeat} runs in turn",
    )
    engines = "".join(f"{engine:>14}" for engine in ("parquet_bloom", "pyarrow", "DuckDB", "polars"))
    print(f"{'lake':8}{'rows':24}{engines}{'of pyarrow':>12}{'of best':>9}")
    with tempfile.TemporaryDirectory() as temporary:
        for name, shape in LAKES.items():
            make_lake(Path(temporary) / name, *shape)
            measure(name, Path(temporary) / name, arguments.repeat)


if __name__ == "__main__":
    main()
