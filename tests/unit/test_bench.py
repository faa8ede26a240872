"""The benchmarks' own parts: keys, verdicts, kept results; and, when asked for, the kernel benchmark itself."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PROJECT = Path(__file__).resolve().parents[2]
BENCH = PROJECT / "tools" / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def texts(keys) -> list[bytes]:
    ends = keys.offsets.tolist()
    data = keys.values.tobytes()
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize(("kind", "lengths"), [("36-byte", range(36, 37)), ("4-32-byte", range(4, 33))])
def test_keys_repeat_whole(bench, kind, lengths):
    keys = bench("_keys").make(kind, 1000, seed=1)
    found = texts(keys)
    assert {len(text) for text in found} == set(lengths)
    assert len(set(found)) == 1000
    again = texts(keys.repeated(7, 20))
    assert again == (found[:7] * 3)[:20]


def test_keys_in_and_not_in_differ(bench):
    module = bench("_keys")
    present, absent = (module.make("int64", 1000, seed) for seed in (1, 2))
    assert not np.isin(present.values, absent.values).any()
    assert present.repeated(7, 20).values.tolist() == (present.values[:7].tolist() * 3)[:20]


def test_saved_keys_are_arrow_s_layout(bench, tmp_path):
    keys = bench("_keys").make("4-32-byte", 100, seed=1)
    values, offsets = keys.save(tmp_path / "present")
    assert np.array_equal(np.fromfile(values, np.uint8), keys.values)
    assert np.array_equal(np.fromfile(offsets, np.int32), keys.offsets)
    assert keys.offsets[-1] == len(keys.values)


def test_verdicts_name_the_worst_case(bench):
    tables = bench("_kernel_tables")
    times = {"avx512": 1.0, "Arrow batch": 7.0, "Arrow single": 9.0, "limit read": 0.9}
    results = {
        tables.Case("32K", "int64", "insert", 1): times,
        tables.Case("1M", "int64", "insert", 1): times | {"avx512": 1.4},
        tables.Case("16M", "int64", "insert", 1): times | {"limit read": 0.1},  # only the near sizes are held to it
        tables.Case("1M", "int64", "insert", 2): times | {"avx512": 99.0},  # nor are two threads
    }
    found = {what: (round(worst, 2), place, good) for what, _, worst, place, good in tables.verdicts(results, "avx512")}
    assert found == {
        "int64 insert, Arrow / ours": (5.0, "1M insert", False),
        "int64 below 2 MiB, ours / limit read": (1.56, "1M insert", False),
    }
    assert list(tables.verdicts(results, "base")) == []


def test_a_part_of_the_results_is_replaced(bench, tmp_path):
    keep = bench("_results").keep
    path = tmp_path / "RESULTS.md"
    keep(path, "kernels", "# one\n\n## not a part\n")
    keep(path, "embed", "# two")
    keep(path, "kernels", "# three")
    text = path.read_text()
    assert "# two" in text
    assert "# three" in text
    assert "# one" not in text
    assert re.findall("^## .*", text, re.MULTILINE) == ["## embed", "## kernels"]


@pytest.mark.slow
def test_kernels_run_and_agree(tmp_path):
    command = [sys.executable, str(BENCH / "kernels.py"), "--quick", "--sizes", "32K,1M", "--simd", "base"]
    output = tmp_path / "RESULTS.md"
    done = subprocess.run(
        [*command, "--output", str(output)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "left out Arrow" not in done.stdout
    rows = re.findall(r"^ +32K +\S+ +\S+ +[12] \|.*", done.stdout, re.MULTILINE)
    assert len(rows) >= 9
    assert "one `value in filter`, int64" in done.stdout
    assert rows[0] in output.read_text()
