"""Random lakes with indexes of files, row groups and zones: the rows of keys are those of a filter of all rows.

A lake changes between queries: files come, go, are rewritten with other row groups, and get and lose filters. Row
groups and pages are small, so that zones end inside of pages, and pages inside of zones.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.random_cases.hunting import seeds

import parquet_bloom
from parquet_bloom.file import metadata_cache
from parquet_bloom.lake.lake_index import LakeIndex

LAKES = 1  # of the default suite
GRANULARITIES: list[dict[str, Any]] = [
    {"granularity": "file"},
    {"granularity": "row_group"},
    {"granularity": "zone", "zone_rows": 7},
    {"granularity": "zone", "zone_rows": 64},
]
LAYOUTS: list[dict[str, Any]] = [
    {"layout": "postings", "expected_values": 500, "remainder_bits": 4},
    {"layout": "cuckoo", "num_buckets": 5, "fingerprint_bits": 8},
]
COLUMNS = ["id", "text", "tags", "(id, text)"]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the times of new files to show every change: nothing here changes twice within a tick."""
    monkeypatch.setattr(metadata_cache, "SETTLED_NS", -(1 << 62))
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)


class Lake:
    """Files of a folder, and their rows in memory."""

    def __init__(self, rng: random.Random, root: Path):
        self.rng = rng
        self.root = root
        self.rows: dict[Path, pa.Table] = {}
        self._next = 0
        root.mkdir()
        for _ in range(4):
            self.write()

    def write(self, path: Path | None = None) -> None:
        rng = self.rng
        count = rng.choice([0, 1, 40, 300, 700])
        keys = np.random.default_rng(rng.randrange(2**32)).integers(0, 250, count).tolist()
        table = pa.table(
            {
                "id": pa.array([None if key % 41 == 0 else key for key in keys], pa.int64()),
                "text": pa.array([f"key {key}" for key in keys], pa.string()),
                "tags": pa.array([[key, key + 1, -key] if key % 3 else None for key in keys], pa.list_(pa.int64())),
                "row": pa.array(range(self._next, self._next + count), pa.int64()),
            }
        )
        path = path or self.root / f"{self._next}.parquet"
        self._next += count + 1
        temporary = path.with_name(f"_{path.name}")
        pq.write_table(
            table,
            temporary,
            row_group_size=rng.choice([7, 50, 64, 1000]),
            compression=rng.choice(["snappy", "zstd", "none"]),
            data_page_size=rng.choice([100, 1 << 20]),
            write_batch_size=rng.choice([5, 1024]),
            use_dictionary=rng.random() < 0.5,
            write_page_index=rng.random() < 0.5,
            data_page_version=rng.choice(["1.0", "2.0"]),
        )
        temporary.rename(path)
        self.rows[path] = table

    def change(self) -> str:
        rng, path = self.rng, self.rng.choice(sorted(self.rows))
        change = rng.choice(["add", "replace", "remove", "embed", "drop"])
        if change == "add":
            self.write()
        elif change == "replace":
            self.write(path)
        elif change == "remove" and len(self.rows) > 1:
            path.unlink()
            del self.rows[path]
        elif change == "embed":
            parquet_bloom.embed(path, ["id", "text"])
        else:
            parquet_bloom.drop(path)
        return change

    def find(self, column: str, key: Any) -> list[int]:
        """Return the numbers of the rows of a key, in the order of files and rows."""
        rows = []
        for path in sorted(self.rows):
            for row in self.rows[path].to_pylist():
                value = row[column]
                if key in (value or ()) if column == "tags" else value == key:
                    rows.append(row["row"])
        return rows


def draw_key(rng: random.Random, column: str) -> Any:
    key = rng.randrange(260)
    return f"key {key}" if column == "text" else key


def rows_of(table: pa.Table) -> list[int]:
    return [*table["row"].to_pylist()]


def check(lake: Lake, index: Path, keys: Sequence[tuple[str, Any]]) -> int:
    """Compare every way to ask for keys with the rows in memory; return how many rows there are."""
    dataset, count = parquet_bloom.dataset(lake.root, index=index), 0
    for column, key in keys:
        expected = lake.find(column, key)
        literal = f"'{key}'" if column == "text" else key
        where = f"array_contains(tags, {key})" if column == "tags" else f"{column} = {literal}"
        assert rows_of(parquet_bloom.read_table(lake.root, where=where, index=index)) == expected, where
        assert rows_of(dataset.scan(where, columns=["row"]).to_arrow()) == expected, where
        count += len(expected)
        if column == "tags":
            continue
        assert rows_of(dataset.get(column, key)) == expected
        located = dataset.locate(column, [key]).to_pylist()
        starts = {str(path): table["row"][0].as_py() for path, table in lake.rows.items() if table.num_rows}
        assert [starts[one["path"]] + one["row"] for one in located] == expected
        if column == "id":
            pairs = [(key, f"key {key}"), (key, "none")]
            assert rows_of(dataset.get(["id", "text"], pairs)) == expected
    several = [key for column, key in keys if column == "id"]
    expected = [row for key in dict.fromkeys(several) for row in lake.find("id", key)]
    assert rows_of(dataset.get("id", [*dict.fromkeys(several)])) == expected
    return count


@pytest.mark.parametrize(
    "units", GRANULARITIES, ids=lambda units: f"{units['granularity']}{units.get('zone_rows', '')}"
)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout["layout"])
def test_rows_are_those_of_a_filter(tmp_path: Path, layout: dict[str, Any], units: dict[str, Any]) -> None:
    found = 0
    for seed in seeds(LAKES):
        rng = random.Random(f"granularities {seed}")
        lake, path = Lake(rng, tmp_path / f"lake {seed}"), tmp_path / f"index {seed}"
        happened = []
        with LakeIndex.create(path, COLUMNS, lake=lake.root, **layout, **units) as index:
            index.append()
            for _ in range(4):
                keys = [(column, draw_key(rng, column)) for column in ("id", "text", "tags") * 2]
                try:
                    found += check(lake, path, keys)
                except Exception as error:
                    error.add_note(f"seed {seed}: {keys}, {happened}")
                    raise
                happened += [lake.change() for _ in range(rng.randint(1, 3))]
                if rng.random() < 0.5:
                    index.append()
                    happened.append("append")
                if rng.random() < 0.3:
                    index.compact(keep_seconds=0)
                    happened.append("compact")
            index.append()
            assert index.check(sample=99).problems == []
    assert found > 10
