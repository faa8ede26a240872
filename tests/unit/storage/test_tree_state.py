"""The state of a folder: equal as long as nothing in it changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from parquet_bloom.spark.plan.lake_paths import read_tree_state


def _make(folder: Path) -> Path:
    (folder / "p=1").mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"a")
    (folder / "p=1" / "b.parquet").write_bytes(b"b")
    return folder


def _replace(folder: Path) -> None:
    (folder / "new").write_bytes(b"A")
    os.replace(folder / "new", folder / "a.parquet")


def _change_back(folder: Path) -> None:
    """Write as many bytes, and set the time that the file had."""
    before = (folder / "a.parquet").stat()
    (folder / "a.parquet").write_bytes(b"A")
    os.utime(folder / "a.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.chmod(folder / "a.parquet", before.st_mode)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a.parquet").write_bytes(b"aa"),
        lambda folder: (folder / "p=1" / "c.parquet").write_bytes(b""),
        lambda folder: (folder / "p=1" / "b.parquet").unlink(),
        lambda folder: (folder / "p=1").rename(folder / "p=2"),
        lambda folder: (folder / "_metadata").write_bytes(b""),
        lambda folder: (folder / "p=3").mkdir(),
        _replace,
    ],
)
def test_any_change_shows(tmp_path: Path, change: Callable[[Path], object]) -> None:
    folder = _make(tmp_path / "lake")
    before = read_tree_state(str(folder))
    assert before is not None
    assert read_tree_state(str(folder)) == before
    change(folder)
    assert read_tree_state(str(folder)) != before


def test_the_time_of_the_last_change_counts_not_that_of_writing(tmp_path: Path) -> None:
    folder = _make(tmp_path / "lake")
    before = read_tree_state(str(folder))
    assert before is not None
    while True:  # until the clock of the file system has ticked
        _change_back(folder)
        after = read_tree_state(str(folder))
        assert after is not None
        if after.newest_ns > before.newest_ns:
            break
    assert after.entries != before.entries


def test_what_has_no_state(tmp_path: Path) -> None:
    folder = _make(tmp_path / "lake")
    assert read_tree_state(str(tmp_path / "missing")) is None
    assert read_tree_state(str(folder), max_entries=3) is None
    assert read_tree_state(str(folder), max_entries=4) is not None
    (folder / "link").symlink_to(tmp_path)
    assert read_tree_state(str(folder)) is None


def test_a_link_to_a_folder_has_the_state_of_its_target(tmp_path: Path) -> None:
    one, two, link = _make(tmp_path / "one"), _make(tmp_path / "two"), tmp_path / "link"
    link.symlink_to(one)
    assert read_tree_state(str(link)) == read_tree_state(str(one))
    link.unlink()
    link.symlink_to(two)
    assert read_tree_state(str(link)) == read_tree_state(str(two)) != read_tree_state(str(one))
