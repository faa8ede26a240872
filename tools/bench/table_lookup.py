"""Look up one id in a Delta and an Iceberg table of 1,000 files with filters, by us and by other readers.

python tools/bench/table_lookup.py [--files N] [--rows N] [--repeat N] [--duckdb PYTHON] [--folder FOLDER]

The files are the same for all. Each reader has a process of its own; they are asked in turn, each time for another id,
alternately present and absent, and every answer is checked. "first" includes opening the table, and imports; "warm" is
the median of the later ones. Bytes are those read by system calls (`/proc/PID/io`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive

HERE = Path(__file__).resolve().parent


def make_tables(folder: Path, files: int, rows: int) -> tuple[str, str, list[int]]:
    """Write the files, and both tables over them; return the folder, the metadata file, and some ids."""
    from deltalake import write_deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    import parquet_bloom

    rng = np.random.default_rng(1)
    root = folder / "delta"
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
    ids: list[int] = []
    write_deltalake(str(root), schema.empty_table())
    lines = []
    for number in range(files):
        numbers = rng.integers(0, 2**62, rows)
        ids.append(int(numbers[rows // 2]))
        table = pa.table([numbers, [uuid.uuid4().hex for _ in range(rows)], rng.random(rows)], schema=schema)
        name = f"part-{number:05}.parquet"
        pq.write_table(table, root / name)
        stats = {
            "numRecords": rows,
            "minValues": {"id": int(numbers.min())},
            "maxValues": {"id": int(numbers.max())},
            "nullCount": {"id": 0},
        }
        lines.append((name, stats))
    staged = folder / "staged"
    staged.mkdir()
    for name, _ in lines:  # embedding refuses files of a table
        (root / name).rename(staged / name)
    parquet_bloom.embed(str(staged), ["id"], fpp=0.001)
    log = []
    for name, stats in lines:
        (staged / name).rename(root / name)
        size = (root / name).stat().st_size
        add = {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        log.append(json.dumps({"add": add | {"stats": json.dumps(stats)}}))
    (root / "_delta_log" / f"{1:020}.json").write_text("\n".join(log) + "\n")
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("bench")
    iceberg = catalog.create_table("bench.events", schema, location=f"file://{root}")
    iceberg.add_files([str(root / name) for name, _ in lines])
    return str(root), iceberg.metadata_location.removeprefix("file://"), ids


class Reader:
    """A reader in its process."""

    def __init__(self, python: str, engine: str, table: str):
        self.engine, self.first, self.times, self.num_bytes = engine, 0.0, [], []
        command = [python, str(HERE / "_table_reader.py"), engine, table]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, number: int, expected: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        answer: list[Any] = json.loads(self._process.stdout.readline())
        if answer[0] != expected:
            raise SystemExit(f"{self.engine}: {answer[0]} rows with id {number}, not {expected}")
        if answer[3] is not None:
            self.first = answer[3]
        else:
            self.times.append(answer[1])
            self.num_bytes.append(answer[2])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=positive, default=1000)
    parser.add_argument("--rows", type=positive, default=5000, help="of each file")
    parser.add_argument("--repeat", type=positive, default=7)
    parser.add_argument("--duckdb", metavar="PYTHON", help="a Python with DuckDB and its extensions for both formats")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    header(f"one id in a table of {arguments.files:,} files")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        delta, iceberg, ids = make_tables(Path(folder), arguments.files, arguments.rows)
        engines = [(sys.executable, f"delta/{name}", delta) for name in ("parquet_bloom", "deltalake", "polars")]
        names = ("parquet_bloom", "pyiceberg", "polars")
        engines += [(sys.executable, f"iceberg/{name}", iceberg) for name in names]
        if arguments.duckdb:
            engines += [(arguments.duckdb, "delta/DuckDB", delta), (arguments.duckdb, "iceberg/DuckDB", iceberg)]
        readers = [Reader(*engine) for engine in engines]
        for turn in range(arguments.repeat + 1):
            for reader in readers:
                reader.ask(ids[(turn * 37) % len(ids)] if turn % 2 == 0 else turn, 1 if turn % 2 == 0 else 0)
        print(f"{arguments.files:,} files of {arguments.rows:,} rows, one id")
        print(f"{'reader':28} {'first s':>9} {'warm ms':>9} {'MB read':>9}")
        for reader in sorted(readers, key=lambda one: one.engine):
            warm = statistics.median(reader.times) * 1000
            print(
                f"{reader.engine:28} {reader.first:9.2f} {warm:9.1f} {statistics.median(reader.num_bytes) / 1e6:9.2f}"
            )
            reader.close()


if __name__ == "__main__":
    main()
