"""A file that filters are dropped from, or embedded into, by a process that is killed is the old or the new one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.storage.local.local_rewrite import leftovers

pytestmark = pytest.mark.crash

PROJECT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
import parquet_bloom
path = sys.argv[1]
parquet_bloom.drop(path, dry_run=True)
for _ in sys.stdin:
    child = os.fork()  # quick, where a fresh Python with pyarrow is not
    while not child:
        parquet_bloom.drop(path)
        parquet_bloom.embed(path, ["id"], threads=1)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(11)
    path = tmp_path / "a.parquet"
    ids = np.random.default_rng(1).integers(0, 1 << 60, 6_000)
    pq.write_table(pa.table({"id": ids}), path, row_group_size=1_000, use_dictionary=False)
    plain = path.read_bytes()
    parquet_bloom.embed(path, ["id"])
    full = path.read_bytes()
    results = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for _ in range(25):
            program.stdin.write("again\n")
            program.stdin.flush()
            child = int(program.stdout.readline())
            # On a busy machine the child may need longer for its first file.
            time.sleep(chance.uniform(0, 0.08 if any(results) else 0.08 * (1 + len(results))))
            os.kill(child, signal.SIGKILL)
            assert program.stdout.readline() == "dead\n"
            data = path.read_bytes()
            assert data in (plain, full)
            results.append(data == plain)
            strays = sorted(str(file) for file in tmp_path.iterdir() if file != path)
            assert strays == leftovers(tmp_path)
            for name in strays:
                os.unlink(name)
            path.write_bytes(full)
    assert any(results), "no child lived long enough to drop anything"
