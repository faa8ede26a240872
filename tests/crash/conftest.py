"""Fixtures of the tests that count and cut system calls."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from faulty import Commands
from scenarios import SCENARIOS, Stage


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Runs commands in children whose system calls are counted and cut."""
    if not sys.platform.startswith("linux"):
        pytest.skip("system calls are counted by a library for Linux")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler to make the library with that counts system calls")
    result = Commands(tmp_path_factory.mktemp("faults"))
    yield result
    result.close()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A folder, in memory where that can be: to kill a process needs no disk, and many flushes take long on one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def stage(commands: Commands, room: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], Stage]]:
    """Puts a scenario on its stage, by its name."""

    def put(name: str) -> Stage:
        return Stage(SCENARIOS[name], commands, room)

    yield put
    capsys.readouterr()  # what the commands that check have printed
