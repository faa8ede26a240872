"""A file being rewritten is the old or the new one, whole, when the writer dies, fails or is disturbed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parquet_bloom.storage.local.local_rewrite import leftovers

sys.path.insert(0, str(Path(__file__).parent))
from rewriter import NEW, OLD, OTHER, checksums, contents

pytestmark = pytest.mark.crash

TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.parquet_bloom\.(?:tmp|old)")
PROJECT = Path(__file__).parents[2]

WAYS: dict[str, dict[str, Any]] = {
    "in place": {"way": "rewrite"},
    "in place, no exchange": {"way": "rewrite", "without": ["renameat2", "copy_file_range"]},
    "to another file": {"way": "rewrite", "source": "source.parquet"},
    "from nothing": {"way": "create"},
}
ways = pytest.mark.parametrize("way", WAYS)
in_place = pytest.mark.parametrize("way", ["in place", "in place, no exchange"])


class Rewriter:
    """The program that forks the children."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        program = str(Path(__file__).with_name("rewriter.py"))
        self._process = subprocess.Popen(
            [sys.executable, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def start(self, **job: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer.get("outcome") != "wrong", answer
        return answer

    def run(self, folder: Path, way: str, kind: str, at: int = -1) -> dict[str, Any]:
        """Rewrite `a.parquet` in a folder, with something of that kind happening at that step."""
        job = {**WAYS[way], "path": str(folder / "a.parquet"), "kind": kind, "at": at}
        if "source" in job:
            job["source"] = str(folder / job["source"])
        self.start(**job)
        return self.answer()

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def rewriter() -> Iterator[Rewriter]:
    program = Rewriter()
    yield program
    program.close()


class Lake:
    """A folder with the file to be rewritten and its checksums, laid out anew for each step."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._count = 0

    def fresh(self) -> Path:
        self._count += 1
        folder = self._root / str(self._count)
        folder.mkdir()
        for name in ("a.parquet", "source.parquet"):
            (folder / name).write_bytes(OLD)
            (folder / f".{name}.crc").write_bytes(checksums(OLD))
        return folder


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """In memory where that can be: to kill a process needs no disk, and many flushes take long on one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield Lake(tmp_path)
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Lake(Path(folder))


def check(folder: Path, allowed: list[bytes]) -> bytes | None:
    """The rules that hold at every moment; returns the file's contents."""
    file, crc = folder / "a.parquet", folder / ".a.parquet.crc"
    data = file.read_bytes() if file.exists() else None
    assert data in allowed, f"{len(data or b'')} bytes"
    if crc.exists():
        assert data is not None
        assert crc.read_bytes() == checksums(data), "a stale checksum file"
    assert (folder / "source.parquet").read_bytes() == OLD
    assert (folder / ".source.parquet.crc").read_bytes() == checksums(OLD)
    return data


def strays(folder: Path) -> list[str]:
    """Names that should not be there any more; all must be recognisable as ours."""
    known_names = {"a.parquet", ".a.parquet.crc", "source.parquet", ".source.parquet.crc"}
    names = sorted(str(folder / name) for name in os.listdir(folder) if name not in known_names)
    assert all(TEMPORARY.fullmatch(Path(name).name) for name in names), names
    return names


def steps(rewriter: Rewriter, lake: Lake, way: str) -> list[str]:
    """The moments before and after each system call of an undisturbed rewrite."""
    folder = lake.fresh()
    answer = rewriter.run(folder, way, "nothing")
    assert answer["outcome"] == "done", answer
    assert check(folder, [NEW]) == NEW
    assert strays(folder) == []
    names: list[str] = answer["steps"]
    assert "before fsync" in names
    return names


def moments_without_gap(rewriter: Rewriter, lake: Lake, way: str) -> list[tuple[int, str]]:
    """All steps but, without an exchange, those between the last look at the target and its replacement."""
    moments = list(enumerate(steps(rewriter, lake, way)))
    if way != "in place, no exchange":
        return moments
    replaced = next(at for at, name in moments if name == "before replace")
    return [moment for moment in moments if moment[0] not in (replaced - 1, replaced)]


@ways
def test_killed_at_each_step(rewriter: Rewriter, lake: Lake, way: str) -> None:
    seen = set()
    for at in range(len(steps(rewriter, lake, way))):
        folder = lake.fresh()
        assert rewriter.run(folder, way, "kill", at) == {"outcome": "killed", "signal": signal.SIGKILL}
        seen.add(check(folder, [OLD, NEW]))
        assert strays(folder) == leftovers(folder)
    assert seen == {OLD, NEW}


def test_killed_at_any_moment(rewriter: Rewriter, tmp_path: Path) -> None:
    chance = random.Random(5)
    path = tmp_path / "a.parquet"
    prefix = contents(0, 2 << 20)
    path.write_bytes(prefix + contents(0, 40_000) + bytes(8))
    (tmp_path / ".a.parquet.crc").write_bytes(checksums(path.read_bytes()))
    rewritten = []
    for _ in range(25):
        rewriter.start(kind="for ever", path=str(path), prefix=len(prefix))
        child = rewriter.answer()["child"]
        # On a busy machine the child may need longer for its first rewrite.
        time.sleep(chance.uniform(0, 0.08 if any(rewritten) else 0.08 * (1 + len(rewritten))))
        os.kill(child, signal.SIGKILL)
        assert rewriter.answer()["outcome"] == "killed"
        data = path.read_bytes()
        generation = int.from_bytes(data[-8:])
        assert data == prefix + contents(generation, 40_000) + data[-8:]
        crc = tmp_path / ".a.parquet.crc"
        assert not crc.exists() or crc.read_bytes() == checksums(data)
        strays_now = [str(tmp_path / n) for n in os.listdir(tmp_path) if n not in (path.name, crc.name)]
        assert sorted(strays_now) == leftovers(tmp_path)
        rewritten.append(generation)
        for name in leftovers(tmp_path):
            os.unlink(name)
        crc.write_bytes(checksums(data))
    assert any(rewritten), "no child lived long enough for one rewrite"


@ways
@pytest.mark.parametrize("kind", ["fail", "fail for good", "interrupt"])
def test_a_failing_step(rewriter: Rewriter, lake: Lake, way: str, kind: str) -> None:
    for at, name in enumerate(steps(rewriter, lake, way)):
        folder = lake.fresh()
        answer = rewriter.run(folder, way, kind, at)
        data = check(folder, [OLD, NEW])
        remaining = strays(folder)
        if answer["outcome"] == "done":
            assert data == NEW, name
            continue
        assert answer["outcome"] in ("StorageError", "ConcurrentChangeError", "interrupted"), (name, answer)
        # A failed call may have done its work all the same; and where nothing can be undone, nothing is.
        if name.startswith("before") and kind != "fail for good":
            undone = data == OLD or "was replaced" in answer["text"] or kind == "interrupt"
            assert undone, (name, answer)
            removal = name.endswith(("unlink", "lstat", "exchange"))
            assert not remaining or removal or kind == "interrupt", (name, answer, remaining)


@in_place
@pytest.mark.parametrize("kind", ["replaces", "hadoop replaces"])
def test_another_writer_replaces_the_file(rewriter: Rewriter, lake: Lake, way: str, kind: str) -> None:
    outcomes = set()
    for at, name in moments_without_gap(rewriter, lake, way):
        folder = lake.fresh()
        answer = rewriter.run(folder, way, kind, at)
        assert check(folder, [OTHER]) == OTHER, (name, answer)
        assert strays(folder) == [], (name, answer)
        outcomes.add(answer["outcome"])
    # Before the file is opened the other writer's is the one that is read, and it has too few bytes.
    assert outcomes == {"ConcurrentChangeError", "TruncatedFileError", "done"}


@in_place
def test_another_writer_appends_or_removes(rewriter: Rewriter, lake: Lake, way: str) -> None:
    for at, _ in moments_without_gap(rewriter, lake, way):
        folder = lake.fresh()
        (folder / ".a.parquet.crc").unlink()
        answer = rewriter.run(folder, way, "appends", at)
        done = answer["outcome"] == "done"
        check(folder, [NEW, NEW + b"more"] if done else [OLD + b"more", NEW + b"more"])
        folder = lake.fresh()
        (folder / ".a.parquet.crc").unlink()
        answer = rewriter.run(folder, way, "removes", at)
        check(folder, [None, OLD] if answer["outcome"] != "done" else [None, NEW])
        assert answer["outcome"] != "done" or strays(folder) == []
