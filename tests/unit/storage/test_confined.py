"""Files that have to be in given folders, however their paths lead there, and whatever happens meanwhile."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from parquet_bloom.errors import StorageError
from parquet_bloom.storage import list_files, open_source
from parquet_bloom.storage.confined import ConfinedFolders, confine, list_confined


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "lake/a.parquet",
        "lake/day=1/b.parquet",
        "lake/day=1/deep/c.parquet",
        "lake/_h/d.parquet",
        "private/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "lake" / "in").symlink_to("day=1")
    (tmp_path / "lake" / "_out").symlink_to("../private")
    (tmp_path / "given").symlink_to("lake")
    return tmp_path


def code_of(action: object, *arguments: object) -> int | None:
    assert callable(action)
    with pytest.raises(StorageError) as caught:
        action(*arguments)
    return caught.value.errno


def test_a_link_that_is_made_after_the_look(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is resolved, and then a folder of it becomes a link."""
    folders = ConfinedFolders([str(root / "lake")])
    real = os.path.realpath
    paths = [f"{root}/lake/day=1/x", f"{root}/lake/day=1"]
    looked = {path: real(path) for path in paths}
    (root / "lake" / "day=1").rename(root / "lake" / "was")
    (root / "lake" / "day=1").symlink_to(root / "private")
    monkeypatch.setattr(os.path, "realpath", lambda path, **options: looked.get(path) or real(path, **options))
    assert code_of(folders.open, paths[0]) == errno.EXDEV
    assert code_of(folders.open_folder, paths[1]) == errno.EXDEV
    assert code_of(folders.stat, paths[0]) == errno.EXDEV


def test_what_is_confined_and_what_is_not(root: Path) -> None:
    files = confine(None, ConfinedFolders([str(root / "given")]))
    for path in (root / "given" / "a.parquet", root / "lake" / "in" / "b.parquet", root / "private" / "x"):
        with open_source(str(path), files) as source:
            assert source.read_at(0, source.size).decode() == str(Path(os.path.realpath(path)).relative_to(root))
    for name in ("x", "nothing"):
        assert code_of(open_source, f"{root}/lake/_out/{name}", files) == errno.EXDEV
    assert code_of(open_source, f"{root}/lake/nothing", files) == errno.ENOENT
    assert code_of(open_source, f"file://{root}/lake/a.parquet", files) == errno.ENOENT


@pytest.mark.parametrize(
    "pattern", ["", "/*", "/*.parquet", "/day=*", "/**", "/**/*.parquet", "/d*/*", "/i[n]/b*", "/_h", "/_h/*"]
)
def test_it_lists_as_others_do(root: Path, pattern: str) -> None:
    path = f"{root}/lake{pattern}"
    assert sorted(list_confined(path, ConfinedFolders([str(root)]))) == sorted(list_files(path))


def test_a_pattern_of_the_folders_bounds_what_is_found(root: Path) -> None:
    folders = ConfinedFolders([f"{root}/lake/day=*"])
    for path in (f"{root}/lake", f"{root}/lake/*", f"{root}/lake/day=1"):
        names = {os.path.basename(file) for file in list_confined(path, folders)}
        assert names == {"b.parquet", "c.parquet"}
    for path in (
        "lake/a.parquet",
        "lake/nothing",
        "lake/_out/x",
        "lake/_out/nothing",
        "private",
        "lake/_o*/x",
        "lake/_o*/y",
    ):
        assert code_of(list_confined, f"{root}/{path}", folders) in (errno.EXDEV, errno.ENOENT)
    for one, other in (("lake/a.parquet", "lake/z.parquet"), ("lake/_o*/x", "lake/_o*/y"), ("private/x", "private/y")):
        assert code_of(list_confined, f"{root}/{one}", folders) == code_of(list_confined, f"{root}/{other}", folders)
