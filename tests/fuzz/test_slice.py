"""A slice of fuzzing in every run: each kept input, and some that chance makes of the good ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness
from support.scale import scaled


def run(target: harness.Target, data: bytes) -> None:
    with harness.bounded_time():
        try:
            target(data)
        except BaseException as error:
            error.add_note(f"target {target.name}, input {data[:200].hex()} ({len(data)} bytes)")
            raise


def try_some(name: str, count: int, seed: int) -> None:
    target = harness.load(name)
    for data in target.seeds():
        assert len(data) <= target.max_input
        target.run(data)  # a good input is refused by nobody
    with harness.bounded_memory():
        for path in target.list_inputs():
            run(target, path.read_bytes())
        for data in target.mutants(count, seed):
            run(target, data)


@pytest.mark.parametrize("name", harness.names())
def test_a_slice(name: str) -> None:
    try_some(name, scaled(0.15 * harness.load(name).slice), seed=0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("name", harness.names())
def test_more(name: str, seed: int) -> None:
    try_some(name, 50 * harness.load(name).slice, seed)


def test_kept_inputs_belong_to_a_target_and_are_small() -> None:
    folders = [folder for folder in (harness.HERE / "corpus").iterdir() if folder.is_dir()]
    assert {folder.name for folder in folders} <= set(harness.names())
    for folder in folders:
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 64 << 10, folder.name
