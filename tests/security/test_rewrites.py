"""Owner and permissions of a file survive a rewrite, and nobody gets more access meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.storage.local import local_rewrite

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this")
NOBODY, ALICE, LAKE, OTHERS = 65534, 12345, 23456, 23457  # users and groups


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o777)
        yield Path(directory)
        subprocess.run(["chattr", "-R", "-i", "-a", directory], capture_output=True)


@pytest.fixture
def path(folder: Path) -> Path:
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "a.parquet")
    (folder / "a.parquet").chmod(0o644)
    return folder / "a.parquet"


@pytest.fixture
def become() -> Iterator[Callable[..., None]]:
    """Become another user, in some groups, for the rest of the test."""
    groups = os.getgroups()

    def become(user: int, group: int = NOBODY, *more: int) -> None:
        os.setgroups([*more])
        os.setegid(group)
        os.seteuid(user)

    yield become
    os.seteuid(0)
    os.setegid(0)
    os.setgroups(groups)


def access_list(path: Path) -> str:
    return subprocess.run(["getfacl", "-nc", path], capture_output=True, text=True, check=True).stdout


def set_access(path: Path, *arguments: str) -> None:
    if not shutil.which("setfacl") or subprocess.run(["setfacl", *arguments, path], capture_output=True).returncode:
        pytest.skip("no access lists here")


def refused(path: Path, reason: str) -> None:
    """A failed rewrite is reported on one line, changes nothing and leaves no temporary files."""
    before, names = path.read_bytes(), sorted(os.listdir(path.parent))
    status = path.stat()
    with pytest.raises(ParquetBloomError, match=reason) as caught:
        parquet_bloom.embed(path, columns=["id"])
    assert str(caught.value).startswith(f"{path}: ")
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == names
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (status.st_uid, status.st_gid, status.st_mode)


# ------------------------------------------------------------------------------------------------------- what is kept


@as_root
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o777, 0o4755, 0o2664, 0o1644, 0o7777, 0o2200])
def test_owner_group_and_mode_are_kept(path: Path, mode: int) -> None:
    os.chown(path, ALICE, LAKE)
    path.chmod(mode)
    for change in (lambda: parquet_bloom.embed(path, columns=["id"]), lambda: parquet_bloom.drop(path)):
        inode = path.stat().st_ino
        assert change().changed
        status = path.stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (ALICE, LAKE, mode)
        assert status.st_ino != inode


def test_attributes_are_kept(path: Path) -> None:
    message = {"user.origin": b"spark", "user.empty": b"", "user.long": b"x" * 1000, "user.\u00fc": b"\0\xff"}
    if os.geteuid() == 0:
        message |= {"trusted.mark": b"1", "security.mark": b"2"}
    try:
        for name, value in message.items():
            os.setxattr(path, name, value)
    except OSError:
        pytest.skip("no extended attributes here")
    parquet_bloom.embed(path, columns=["id"])
    assert {name: os.getxattr(path, name) for name in message} == message


def test_an_access_list_is_kept(path: Path) -> None:
    set_access(path, "-m", f"u:{ALICE}:rw,g:{LAKE}:r,g::-,o::-")
    before = access_list(path)
    parquet_bloom.embed(path, columns=["id"])
    assert access_list(path) == before
    assert f"user:{ALICE}:rw-" in before


def test_a_folders_default_acl_grants_no_access(path: Path) -> None:
    """New files of the folder get it; the file that is rewritten is not a new one."""
    path.chmod(0o640)
    before = access_list(path) if shutil.which("getfacl") else ""
    set_access(path.parent, "-d", "-m", f"u:{ALICE}:rwx")
    parquet_bloom.embed(path, columns=["id"])
    assert access_list(path) == before
    parquet_bloom.embed(path, columns=["id"], output=path.parent / "new.parquet")
    assert f"user:{ALICE}:rwx" in access_list(path.parent / "new.parquet")


def test_times_are_those_of_the_change(path: Path) -> None:
    """Caches, indexes and backups depend on the file's times."""
    os.utime(path, (1, 1))
    parquet_bloom.embed(path, columns=["id"])
    assert path.stat().st_mtime > 1_000_000


# --------------------------------------------------------------------------------------------------------- other users


@as_root
def test_the_owner_does_not_change(path: Path, become: Callable[..., None]) -> None:
    os.chown(path, ALICE, LAKE)
    path.chmod(0o666)
    become(NOBODY)
    refused(path, f"its owner, user {ALICE}, cannot be kept")
    parquet_bloom.embed(path, columns=["id"], output=path.parent / "own.parquet")
    assert (path.parent / "own.parquet").stat().st_uid == NOBODY


@as_root
def test_without_write_permission_nothing_changes(path: Path, become: Callable[..., None]) -> None:
    become(NOBODY)
    refused(path, "no write permission: it may not be written by this user")
    parquet_bloom.embed(path, columns=["id"], output=path.parent / "own.parquet")
    os.seteuid(0)
    path.chmod(0o666)
    path.parent.chmod(0o755)
    become(NOBODY)
    refused(path, "no write permission: its folder may not be written by this user")


@as_root
def test_the_group_does_not_change(path: Path, become: Callable[..., None]) -> None:
    os.chown(path, ALICE, LAKE)
    path.chmod(0o660)
    become(ALICE, OTHERS)
    refused(path, f"its group, {LAKE}, cannot be kept")
    os.seteuid(0)
    become(ALICE, OTHERS, LAKE)
    parquet_bloom.embed(path, columns=["id"])
    assert (path.stat().st_uid, path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (ALICE, LAKE, 0o660)


@as_root
def test_a_folder_that_gives_its_group(path: Path, become: Callable[..., None]) -> None:
    os.chown(path, ALICE, LAKE)
    os.chown(path.parent, 0, LAKE)
    path.parent.chmod(0o2777)
    become(ALICE, OTHERS)
    parquet_bloom.embed(path, columns=["id"])
    assert (path.stat().st_uid, path.stat().st_gid) == (ALICE, LAKE)


@as_root
def test_a_sticky_folder(path: Path, become: Callable[..., None]) -> None:
    """As /tmp: one's own file is replaced, another's is not, however writable."""
    path.parent.chmod(0o1777)
    os.chown(path, ALICE, NOBODY)
    path.chmod(0o666)
    become(NOBODY)
    refused(path, "cannot be kept")
    os.seteuid(0)
    become(ALICE)
    parquet_bloom.embed(path, columns=["id"])
    assert path.stat().st_uid == ALICE


@as_root
@pytest.mark.parametrize("flag", ["i", "a"])
def test_a_file_that_is_locked_down(path: Path, flag: str) -> None:
    if not shutil.which("chattr") or subprocess.run(["chattr", f"+{flag}", path], capture_output=True).returncode:
        pytest.skip("no such flags here")
    refused(path, "not permitted|no write permission")
    subprocess.run(["chattr", f"-{flag}", path], check=True)
    subprocess.run(["chattr", f"+{flag}", path.parent], check=True)
    try:
        if flag == "i":
            refused(path, "not permitted|no write permission")
            return
        # A folder to which may only be added takes the new file, but not its new name, nor gives it back.
        before = path.read_bytes()
        with pytest.raises(StorageError):
            parquet_bloom.embed(path, columns=["id"])
        assert path.read_bytes() == before
    finally:
        subprocess.run(["chattr", f"-{flag}", path.parent], check=True)


# --------------------------------------------------------------------------------------------------------------- links


def test_a_name_that_was_foreseen_is_not_followed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary file is made, never opened; its name holds 64 random bits."""
    names = {local_rewrite.name_beside(str(path)) for _ in range(100)}
    assert len(names) == 100
    assert all(local_rewrite.is_temporary(os.path.basename(name)) for name in names)
    victim = path.parent / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(local_rewrite.secrets, "token_hex", lambda count: "0" * 2 * count)
    planted = Path(local_rewrite.name_beside(str(path)))
    for plant in (
        lambda: planted.symlink_to(victim),
        lambda: os.link(victim, planted),
        lambda: planted.symlink_to("no"),
    ):
        plant()
        with pytest.raises(StorageError, match="File exists"):
            parquet_bloom.embed(path, columns=["id"])
        assert victim.read_text() == "precious"
        planted.unlink()


def test_hadoop_s_checksum_that_is_a_link(path: Path) -> None:
    """Its target is left alone; the link, which would be stale, goes."""
    victim = path.parent / "victim"
    victim.write_bytes(b"crc\0\0\0\2\0" + b"\0" * 4 * -(-path.stat().st_size // 512))
    victim.chmod(0o6755)
    crc = path.parent / ".a.parquet.crc"
    crc.symlink_to(victim)
    before = victim.read_bytes()
    parquet_bloom.embed(path, columns=["id"])
    assert victim.read_bytes() == before
    assert not os.path.lexists(crc)
