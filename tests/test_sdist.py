"""The sdist: the same bytes from every folder, and what a build needs."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ["setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"]


def build(folder: Path, modified: int, mask: int) -> Path:
    kept = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(ROOT / "parquet_bloom", folder / "parquet_bloom", ignore=kept)
    for part in PARTS:
        shutil.copy(ROOT / part, folder)
    for path in folder.rglob("*"):
        os.utime(path, (modified, modified))
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
    command = [sys.executable, "setup.py", "--quiet", "sdist"]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "dist").glob("*.tar.gz")
    return made


@pytest.mark.ci
def test_the_sdist_is_the_same_wherever_and_whenever_it_is_built(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "another").mkdir()
    first = build(tmp_path / "a", 1_600_000_000, 0o022)
    second = build(tmp_path / "another", 1_650_000_000, 0o002)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        names = {member.name.partition("/")[2] for member in archive}
        assert {member.mtime for member in archive} == {1_700_000_000}
    sources = [
        path for path in (ROOT / "parquet_bloom").rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".h", ".pyi")
    ]
    assert {path.relative_to(ROOT).as_posix() for path in sources} | set(PARTS) <= names
