"""An index whose writer is killed, at any moment, answers right: no file that holds a value is ever left out."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scale import sampled

from parquet_bloom.lake.index_reports import Candidate
from parquet_bloom.lake.lake_index import LakeIndex

pytestmark = pytest.mark.crash

PROJECT = Path(__file__).parents[2]
FILES = 12
PROGRAM = """
import os, random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import test_lake_index as own
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file import identity as stamps
from parquet_bloom.lake.lake_index import LakeIndex

stamps.WAIT_SECONDS = 0  # a process that waits is killed for nothing
lake, path = Path(sys.argv[1]), sys.argv[2]
LakeIndex.open(path).close()  # all is imported before the first fork
for line in sys.stdin:
    child = os.fork()
    if not child:
        chance = random.Random(int(line))
        while True:
            own.change(lake, path, chance)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


def write(lake: Path, number: int, generation: int) -> None:
    """One of the lake's files in one of its states, put in its place whole."""
    ids = np.random.default_rng((number, generation)).integers(0, 5_000, 60)
    temporary = lake / f".{number}.new"
    names = [f"Ж{one % 400}" for one in ids.tolist()]
    pq.write_table(pa.table({"id": ids, "name": names}), temporary, row_group_size=20)
    os.replace(temporary, lake / f"{number}.parquet")


def change(lake: Path, path: str, chance: random.Random) -> None:
    """One change of the index, the lake, or both."""
    number = chance.randrange(FILES)
    one = lake / f"{number}.parquet"
    with LakeIndex.open(path, live=chance.random() < 0.5) as index:
        what = chance.random()
        if what < 0.5:
            index.append(lake if chance.random() < 0.3 else one, threads=1, memory_limit=1 << 20)
        elif what < 0.65:
            indexed_files = [
                file for segment in index.state.segments for file in segment.files.paths(segment.present.nonzero()[0])
            ]
            if indexed_files:
                index.remove(chance.choice(indexed_files))
        elif what < 0.8:
            index.compact(keep_seconds=0)
        else:
            write(lake, number, chance.randrange(1 << 30))


def truth(lake: Path, key: str) -> dict[str, list[Any]]:
    """Return the values of a column or expression in each file, row by row."""
    compute: Callable[[dict[str, Any]], Any] = {
        "id": lambda row: row["id"],
        "lower(name)": lambda row: row["name"].lower(),
        "CAST(id AS STRING)": lambda row: str(row["id"]),
        "(id, name)": lambda row: (row["id"], row["name"]),
    }[key]
    return {str(file): list(map(compute, pq.read_table(file).to_pylist())) for file in sorted(lake.glob("*.parquet"))}


def assert_has_all_rows(candidate: Candidate, values: list[Any], value: Any) -> None:
    """Assert that no row with a value is outside of the rows that are named; row groups have 20."""
    if candidate.row_groups is None or candidate.rows is None:
        return
    ranges = zip(candidate.row_groups, candidate.rows, strict=True)
    rows = {20 * number + row for number, some in ranges for start, stop in some for row in range(start, stop)}
    assert {row for row, one in enumerate(values) if one == value} <= rows


def assert_right(lake: Path, path: str) -> int:
    """Look up every value; returns the (value, file) pairs that were found."""
    pairs = 0
    with LakeIndex.open(path) as index:
        for key in index.columns:
            files = truth(lake, key)
            values = sorted(set().union(*files.values()))
            answers = index.lookup(key, values)
            assert answers.doubts == []
            for value, answer in zip(values, answers, strict=True):
                matches = {candidate.path for candidate in answer}
                holders = {file for file, those in files.items() if value in those}
                assert holders <= matches
                for candidate in answer if index.state.manifest.zone_rows else ():
                    assert_has_all_rows(candidate, files[candidate.path], value)
                assert matches <= files.keys()
                pairs += len(holders)
        assert index.check(sample=2).problems == []
    return pairs


def kill(lake: Path, path: str, times: int, seed: int) -> int:
    """Kill a process that changes the index, so many times; returns the pairs that were found afterwards."""
    chance = random.Random(seed)
    pairs = 0
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(lake), path, str(Path(__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for _ in range(times):
            program.stdin.write(f"{chance.randrange(1 << 60)}\n")
            program.stdin.flush()
            child = int(program.stdout.readline())
            time.sleep(chance.random() * 0.12)
            os.kill(child, signal.SIGKILL)
            assert program.stdout.readline() == "dead\n"
            pairs += assert_right(lake, path)
        program.stdin.close()
    return pairs


SETTINGS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "postings": (["id"], {"layout": "postings", "granularity": "row_group"}),
    "cuckoo": (["id"], {"layout": "cuckoo", "num_buckets": 20}),
    "expressions": (
        ["id", "lower(name)", "CAST(id AS STRING)", "(id, name)"],
        {"layout": "postings", "granularity": "row_group"},
    ),
    "postings-zones": (["id"], {"layout": "postings", "granularity": "zone", "zone_rows": 7}),
    "cuckoo-zones": (["id"], {"layout": "cuckoo", "num_buckets": 5, "granularity": "zone", "zone_rows": 7}),
}


@pytest.fixture(params=sampled(SETTINGS, 12))
def lake_and_index(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    lake, path = tmp_path / "lake", str(tmp_path / "index")
    lake.mkdir()
    for number in range(FILES):
        write(lake, number, 0)
    columns, settings = SETTINGS[request.param]
    LakeIndex.create(path, columns, lake=lake, **settings).close()
    return lake, path


def test_killed_at_any_moment(lake_and_index: tuple[Path, str]) -> None:
    assert kill(*lake_and_index, times=8, seed=1) > 0


@pytest.mark.long
def test_killed_hundreds_of_times(lake_and_index: tuple[Path, str]) -> None:
    lake, path = lake_and_index
    kill(lake, path, times=150, seed=2)
    with LakeIndex.open(path) as index:
        index.append(lake)
        index.compact(keep_seconds=0)
        assert index.unindexed == []
    assert_right(lake, path)
    # Files of killed writers are gone.
    names = os.listdir(path)
    assert sum(name.startswith("manifest-") for name in names) == 1
    assert len([name for name in names if not name.startswith("manifest-")]) <= 3
