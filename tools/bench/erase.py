"""Rows of a few keys erased from a lake: `erase`, beside pyarrow and deltalake that rewrite the files whole.

python tools/bench/erase.py [--folder FOLDER] [--small] [--repeat N]

40 files of 100,000 rows in ten row groups: an int64 `id`, a text of 36 letters, a float64, a timestamp and a text of
eight values, zstd, with filters of `id`. Keys are in the row groups of four of the files, or of all of them. Each way
works on a fresh copy of the lake, which is not part of the time; medians, the ways in turn.

erase              located, written anew, replaced, and searched again
erase, index       the same by a lake index
pyarrow, 4 files   the files that hold a key, which it is told, read and filtered and written whole, and replaced
deltalake          `DeltaTable.delete`, which finds the files by their statistics and rewrites them
wall, CPU   of the call alone
written     bytes of new files; encoded: of these, pages that were not copied
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _common import header, positive  # first, to import the package of this checkout

import parquet_bloom

FILES, ROWS, GROUPS, KEYS = 40, 100_000, 10, 20
WAYS = ("erase", "erase, index", "pyarrow, files whole", "deltalake")


def make_table(number: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(number)
    ids = rng.permutation(np.arange(rows, dtype=np.int64) * FILES + number)
    return pa.table(
        {
            "id": ids,
            "session": [f"{one:036x}" for one in rng.integers(0, 2**62, rows)],
            "amount": rng.random(rows),
            "at": pa.array(1_790_000_000_000_000 + np.sort(rng.integers(0, 10**11, rows)), pa.timestamp("us", "UTC")),
            "country": pa.array(["DE", "FR", "US", "IN", "BR", "JP", "NG", "MX"]).take(
                pa.array(rng.integers(0, 8, rows))
            ),
        }
    )


def make_lake(folder: Path, rows: int) -> None:
    """Write the lake, a Delta table of the same files, and an index, unless they are there."""
    if (folder / "complete").exists():
        return
    import deltalake

    lake = folder / "lake"
    lake.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        table = make_table(number, rows)
        pq.write_table(table, lake / f"{number:02}.parquet", row_group_size=rows // GROUPS, compression="zstd")
        deltalake.write_deltalake(str(folder / "delta"), table, mode="append")
    parquet_bloom.embed(lake, ["id"])
    (folder / "complete").touch()


def draw(rows: int, files: int) -> list[int]:
    """Return keys, one row group of each file with one or some."""
    rng = np.random.default_rng(7)
    keys = []
    for number in np.linspace(0, FILES - 1, files).astype(int).tolist():
        group = make_table(number, rows)["id"].slice(0, rows // GROUPS).to_pylist()
        keys += rng.choice(group, max(1, KEYS // files), replace=False).tolist()
    return keys


def run(way: str, folder: Path, keys: list[int]) -> None:
    """Do it once on a fresh copy, and print the figures."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        source = folder / ("delta" if way == "deltalake" else "lake")
        lake = shutil.copytree(source, Path(scratch) / "lake")
        index = f"{scratch}/ids.index"
        if way == "erase, index":
            with parquet_bloom.LakeIndex.create(index, ["id"], granularity="row_group") as made:
                made.append(lake)
        os.sync()
        holding = [
            path for path in sorted(lake.rglob("*.parquet")) if way == "pyarrow, files whole" and _holds(path, keys)
        ]
        work = {"pyarrow, files whole": _rewrite, "deltalake": _delete}.get(way, _erase)
        _ = importlib.import_module("deltalake") if way == "deltalake" else parquet_bloom.erase  # imported by now
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        figures = work(lake, keys, holding, index if way == "erase, index" else None)
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
        figures |= {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}
        figures["memory"] = after.ru_maxrss / 1024
        if way != "deltalake":
            rows = pq.read_table(lake, columns=["id"])["id"]
            figures["left"] = int(pc.sum(pc.is_in(rows, pa.array(keys))).as_py())
    print(json.dumps(figures))


def _holds(path: Path, keys: list[int]) -> bool:
    return bool(pc.any(pc.is_in(pq.read_table(path, columns=["id"])["id"], pa.array(keys))).as_py())


def _erase(lake: Path, keys: list[int], _: object, index: str | None) -> dict[str, Any]:
    report = parquet_bloom.erase(lake, keys, on="id", index=index)
    return {"files": len(report.files), "written": report.bytes_written, "encoded": report.bytes_encoded}


def _rewrite(_: Path, keys: list[int], holding: list[Path], __: object) -> dict[str, Any]:
    written = 0
    for path in holding:
        table = pq.read_table(path)
        kept = table.filter(pc.invert(pc.is_in(table["id"], pa.array(keys))))
        new = path.with_suffix(".new")
        pq.write_table(kept, new, row_group_size=len(table) // GROUPS, compression="zstd")
        with open(new, "rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
        written += path.stat().st_size
    return {"files": len(holding), "written": written, "encoded": written}


def _delete(lake: Path, keys: list[int], *_: object) -> dict[str, Any]:
    import deltalake

    before = {path: path.stat().st_size for path in lake.rglob("*.parquet")}
    metrics = deltalake.DeltaTable(str(lake)).delete(f"id IN ({', '.join(map(str, keys))})")
    written = sum(path.stat().st_size for path in lake.rglob("*.parquet") if path not in before)
    return {"files": metrics["num_removed_files"], "written": written, "encoded": written}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "bench_erase")
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeat", type=positive, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    rows = ROWS // (10 if given.small else 1)
    folder = given.folder / str(rows)
    make_lake(folder, rows)
    if given.one:
        run(given.one[0], folder, draw(rows, int(given.one[1])))
        return
    import deltalake

    header("rows of a few keys erased from 40 files")
    size = sum(path.stat().st_size for path in (folder / "lake").iterdir())
    print(
        f"lake     {FILES} files of {rows:,} rows in {GROUPS} row groups, 5 columns, zstd, filters of id, "
        f"{size / 1e6:.0f} MB"
    )
    print(f"peers    pyarrow {pa.__version__}, deltalake {deltalake.__version__}")
    for files in (4, FILES):
        results: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for _ in range(given.repeat):
            for way in WAYS:
                command = [sys.executable, __file__, "--folder", str(given.folder), "--one", way, str(files)]
                command += ["--small"] if given.small else []
                results[way].append(
                    json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                )
        print(f"\n{max(KEYS, files)} keys, in one row group of {files} files; medians of {given.repeat} runs in turn")
        print(f"{'':22} {'wall':>8} {'CPU':>8} {'memory':>8} {'files':>6} {'written':>9} {'encoded':>9}")
        for way, runs in results.items():
            figure = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
            line = f"{way:22} {figure['wall']:6.2f} s {figure['cpu']:6.2f} s {figure['memory']:5.0f} MB"
            print(f"{line} {figure['files']:6.0f} {figure['written'] / 1e6:6.1f} MB {figure['encoded'] / 1e6:6.1f} MB")
            assert figure.get("left", 0) == 0, way


if __name__ == "__main__":
    main()
