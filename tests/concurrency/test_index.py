"""An index with several writer and reader processes: one writes, the others get an error, and no answer is wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes import churn

from parquet_bloom.errors import IndexInUseError
from parquet_bloom.lake.index_pruning import IndexPruner
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate.tree import Like

pytestmark = pytest.mark.long

FILES, ROWS = 40, 50
WRITER = """
import random, sys
sys.path.insert(0, sys.argv[3])
import parquet_bloom
from parquet_bloom.errors import IndexInUseError
from parquet_bloom.file import identity as stamps
from parquet_bloom.lake.index_pruning import IndexPruner
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate.tree import Like

stamps.WAIT_SECONDS = 0
lake, path, _, what = sys.argv[1:]
refused = done = 0
print("ready", flush=True)
for number in range(6):
    try:
        with LakeIndex.open(path) as index:
            if what == "compact":
                index.compact(keep_seconds=0)
            else:
                numbers = range(int(what), 40, 2)
                index.append([f"{lake}/{one:02}.parquet" for one in random.sample(numbers, 3)], threads=1)
        done += 1
    except IndexInUseError as error:
        refused += 1
        assert "\\n" not in str(error)
print(done, refused, flush=True)
"""


def test_two_append_one_compacts_and_readers_look_up(tmp_path: Path) -> None:
    lake, path = tmp_path / "lake", tmp_path / "index"
    lake.mkdir()
    for number in range(FILES):
        ids = pa.array(range(number * ROWS, (number + 1) * ROWS))
        texts = [f"row {number} of it" for number in ids.to_pylist()]
        pq.write_table(pa.table({"id": ids, "t": texts}), lake / f"{number:02}.parquet")
    LakeIndex.create(path, ["id", "grams(t)"], lake=lake).close()
    project = str(churn.PROJECT)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(lake), str(path), project, what],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": project},
        )
        for what in ("0", "1", "compact")
    ]  # fmt: skip
    chance = random.Random(4)
    long_open = LakeIndex.open(path)
    looked = 0
    while any(writer.poll() is None for writer in writers) or looked < 20:
        with LakeIndex.open(path) as index:
            for value in chance.sample(range(FILES * ROWS), 20):
                for one in (index, long_open):
                    matches = {Path(each.path).name for each in one.lookup("id", [value])[0]}
                    assert f"{value // ROWS:02}.parquet" in matches
                    pruner = IndexPruner(one.state, Like("t", f"%row {value} of%"))
                    if pruner.useful:  # once weights are learnt
                        left = {Path(name).name for name, selection in pruner.live() if selection.read}
                        assert f"{value // ROWS:02}.parquet" in left
                        assert not pruner.doubts
        looked += 1
        if looked % 5 == 0:
            long_open.refresh()
    output = [writer.communicate(timeout=60)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert all(int(done) + int(refused) == 6 for _, done, refused in output)
    assert sum(int(done) for _, done, _ in output) >= 3
    long_open.close()
    with LakeIndex.open(path) as index:
        try:
            index.append(lake)
        except IndexInUseError:  # pragma: no cover
            raise AssertionError("a lock outlived its process") from None
        assert index.check(sample=5).problems == []
        assert index.unindexed == []
        names = {name: one.read for name, one in IndexPruner(index.state, Like("t", "%row 77 of%")).live()}
        assert sum(names.values()) < FILES
        assert names[str(lake / f"{77 // ROWS:02}.parquet")]
        assert [len(index.lookup("id", [value])[0]) for value in range(0, FILES * ROWS, 77)] == [1] * 26
