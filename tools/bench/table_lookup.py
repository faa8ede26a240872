"""Look up ids in a Delta and an Iceberg table of 1,000 files with filters, by us and by other readers.

python tools/bench/table_lookup.py [--files N] [--rows N] [--ids N] [--deletes] [--repeat N] [--duckdb PYTHON]
    [--folder FOLDER]

With `--deletes` there are three tables: Delta with deletion vectors, Iceberg with position deletes and Iceberg with
equality deletes, one file of them for all data files. One row in fifty is deleted; some of these are asked for.

The files are the same for all. Each reader has a process of its own; they are asked in turn, each time for another id,
alternately present and absent, and every answer is checked. "first" includes opening the table, and imports; "warm" is
the median of the later ones. Bytes are those read by system calls (`/proc/PID/io`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests"))


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


class Table(NamedTuple):
    """A table: its kind, its folder or metadata file, and the ids in each data file that it shows, and the others."""

    kind: str
    path: str
    live: list[np.ndarray]
    gone: list[np.ndarray]

    def draw(self, turn: int, count: int) -> tuple[set[int], set[int]]:
        """Return ids that it shows, and others; every other time only others, if no rows of it are deleted."""
        shown = {self._pick(self.live, turn, number) for number in range(count)}
        if self.gone:
            return shown, {self._pick(self.gone, turn, number) for number in range(count // 2)}
        return (set(), set(range(turn * count, (turn + 1) * count))) if turn % 2 else (shown, set())

    def _pick(self, ids: list[np.ndarray], turn: int, number: int) -> int:
        of_file = ids[(turn * 37 + number * 7) % len(ids)]
        return int(of_file[(turn + number) % len(of_file)])


def make_tables_with_deletes(folder: Path, files: int, rows: int) -> list[Table]:
    """Write one table for each kind of deletes, of the same rows."""
    from support.writers import delta_log
    from support.writers.iceberg_tables import Entry, HandTable, with_ids

    import parquet_bloom

    rng = np.random.default_rng(1)
    staged, root = folder / "staged", folder / "delta"
    staged.mkdir()
    root.mkdir()
    types = {"id": "long", "name": "string", "value": "double"}
    numbers = {name: number for number, name in enumerate(types, 1)}
    all_ids = []
    for number in range(files):
        all_ids.append(rng.integers(0, 2**62, rows))
        names = [uuid.uuid4().hex for _ in range(rows)]
        table = pa.table([all_ids[-1], names, rng.random(rows)], names=[*types])
        pq.write_table(table.cast(with_ids(table.schema, numbers)), staged / f"{number:05}.parquet")
    parquet_bloom.embed(str(staged), ["id"], fpp=0.001)
    described = [{"id": numbers[name], "name": name, "required": False, "type": kind} for name, kind in types.items()]
    icebergs = {kind: HandTable(folder / kind, [described]) for kind in ("position", "equality")}
    entries: dict[str, list[Entry]] = {kind: [] for kind in icebergs}
    gone = {
        kind: [np.sort(rng.choice(rows, rows // 50, replace=False)) for _ in range(files)]
        for kind in ("delta", *icebergs)
    }
    vectors = delta_log.stored_vectors(root, [positions.tolist() for positions in gone["delta"]])
    adds = []
    for number, path in enumerate(sorted(staged.iterdir())):
        size = path.stat().st_size
        for kind, iceberg in icebergs.items():
            target, name = iceberg.place(".parquet")
            os.link(path, target)
            entries[kind].append(Entry(name, rows, size))
        path.rename(root / path.name)
        adds.append(delta_log.add(path.name, size, {"numRecords": rows}, deletionVector=vectors[number]))
    fields = [delta_log.column(name, kind) for name, kind in types.items()]
    delta_log.commit(root, 0, [*delta_log.beginning(fields, features=["deletionVectors"]), *adds])
    pairs = [
        (entry.path, position)
        for entry, positions in zip(entries["position"], gone["position"], strict=True)
        for position in positions.tolist()
    ]
    deletes = {"sequence": 2, "group": 1 << 20}
    entries["position"].append(icebergs["position"].write_positions(pairs, **deletes))
    values = np.concatenate([ids[chosen] for ids, chosen in zip(all_ids, gone["equality"], strict=True)])
    entries["equality"].append(icebergs["equality"].write_equality(pa.table({"id": values}), {"id": 1}, **deletes))
    paths = {"delta": str(root)}
    for kind, iceberg in icebergs.items():
        iceberg.add_snapshot(entries[kind])
        paths[kind] = iceberg.write_metadata()
    return [
        Table(
            kind,
            path,
            [np.delete(ids, chosen) for ids, chosen in zip(all_ids, gone[kind], strict=True)],
            [ids[chosen] for ids, chosen in zip(all_ids, gone[kind], strict=True)],
        )
        for kind, path in paths.items()
    ]


class Reader:
    """A reader in its process."""

    def __init__(self, python: str, engine: str, table: str, kind: str):
        self.engine, self.first = f"{kind} {engine}", 0.0
        self.times, self.cpu, self.num_bytes = [], [], []
        command = [python, str(HERE / "_table_reader.py"), engine, table]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, ids: Sequence[int], expected: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, ids)) + "\n")
        self._process.stdin.flush()
        answer: list[Any] = json.loads(self._process.stdout.readline())
        if answer[0] != expected:
            raise SystemExit(f"{self.engine}: {answer[0]} rows with the ids {ids}, not {expected}")
        if answer[3] is not None:
            self.first = answer[3]
        else:
            self.times.append(answer[1])
            self.cpu.append(answer[4])
            self.num_bytes.append(answer[2])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def find_readers(arguments: argparse.Namespace, folder: Path) -> dict[Reader, Table]:
    """Make the tables; return their readers, each with its table."""
    if arguments.deletes:
        tables = make_tables_with_deletes(folder, arguments.files, arguments.rows)
        peers = {"delta": ["parquet_bloom", "deltalake"], "position": ["parquet_bloom", "pyiceberg"]}
    else:
        delta, iceberg, ids = make_tables(folder, arguments.files, arguments.rows)
        shown = [np.array([number]) for number in ids]
        tables = [Table("delta", delta, shown, []), Table("iceberg", iceberg, shown, [])]
        peers = {
            "delta": ["parquet_bloom", "deltalake", "polars"],
            "iceberg": ["parquet_bloom", "pyiceberg", "polars"],
        }
    readers = {}
    for table in tables:
        names = [(sys.executable, name) for name in peers.get(table.kind, ["parquet_bloom"])]
        # DuckDB 1.5.5 does not end where several ids are asked of a table with equality deletes.
        if arguments.duckdb and (table.kind != "equality" or arguments.ids == 1):
            names.append((arguments.duckdb, "DuckDB"))
        for python, name in names:
            engine = f"{'delta' if table.kind == 'delta' else 'iceberg'}/{name}"
            readers[Reader(python, engine, table.path, table.kind)] = table
    return readers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=positive, default=1000)
    parser.add_argument("--rows", type=positive, default=5000, help="of each file")
    parser.add_argument("--ids", type=positive, default=1, help="that each query is for")
    parser.add_argument("--deletes", action="store_true", help="tables with deleted rows")
    parser.add_argument("--repeat", type=positive, default=7)
    parser.add_argument("--duckdb", metavar="PYTHON", help="a Python with DuckDB and its extensions for both formats")
    parser.add_argument(
        "--folder", type=Path, help="where the tables are made, and removed again; default: a temporary one"
    )
    arguments = parser.parse_args()
    header(f"{arguments.ids:,} ids in a table of {arguments.files:,} files")
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        readers = find_readers(arguments, Path(folder))
        for turn in range(arguments.repeat + 1):
            for reader, table in readers.items():
                shown, others = table.draw(turn, arguments.ids)
                reader.ask([*shown, *others], len(shown))
        print(f"{arguments.files:,} files of {arguments.rows:,} rows, queries for {arguments.ids} ids")
        print(f"{'reader':38} {'first s':>9} {'warm ms':>9} {'CPU ms':>9} {'MB read':>9}")
        for reader in sorted(readers, key=lambda one: one.engine):
            warm, cpu = (statistics.median(one) * 1000 for one in (reader.times, reader.cpu))
            read = statistics.median(reader.num_bytes) / 1e6
            print(f"{reader.engine:38} {reader.first:9.2f} {warm:9.1f} {cpu:9.1f} {read:9.2f}")
            reader.close()


if __name__ == "__main__":
    main()
