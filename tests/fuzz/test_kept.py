"""Inputs that once found something; and good ones, which no target refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzzing
from support.scale import scaled


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(path.name for path in (fuzzing.HERE / "corpus").iterdir()))
def test_kept_inputs(name: str) -> None:
    paths = fuzzing.kept_inputs(name)
    assert 0 < sum(path.stat().st_size for path in paths) <= 64 << 10
    for path in paths:
        fuzzing.targets()[name].hypothesis.inner_test(data=path.read_bytes())


@pytest.mark.parametrize(
    "file", sorted(path.name for path in fuzzing.HERE.glob("test_*.py") if path.stem != "test_kept")
)
def test_good_inputs_are_taken(file: str) -> None:
    for target in fuzzing.targets().values():
        if target.run.__code__.co_filename.endswith(file):
            for data in target.good() if target.good else ():
                target.run(data=data)
            recipes = target.recipes() if target.recipes else []
            for data in recipes[:: max(len(recipes) // scaled(12), 1)]:
                target.hypothesis.inner_test(data=data)
