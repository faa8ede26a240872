"""Every command that writes, when a system call fails: one line, exit code 2, the old files, and nothing left over."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess

import pyarrow.parquet as pq
import pytest
from faulty import AFTER, BEFORE, EVER, HALF, SHORT, WRITES, Rule
from scenarios import SCENARIOS, leftovers, reported, table

import parquet_bloom
from parquet_bloom.cli import main
from parquet_bloom.errors import StorageError
from parquet_bloom.lake.lake_index import LakeIndex

pytestmark = pytest.mark.crash

ROOM = (
    ",open,write,pwrite,writev,pwritev,copy_file_range,sendfile,fallocate,mkdir,link,fsync,rename,exchange,rename_new,"
)
CHANGES = f"{ROOM}ftruncate,fchmod,fchown,unlink,clone,"
KINDS = {
    "full disk": (ROOM, errno.ENOSPC, False),
    "full disk for good": (ROOM, errno.ENOSPC, True),
    "failing disk": (CHANGES, errno.EIO, False),
    "failing disk for good": (CHANGES, errno.EIO, True),
    "read-only for good": (CHANGES, errno.EROFS, True),
    "not permitted": (",open,mkdir,link,unlink,rename,exchange,rename_new,fchmod,fchown,", errno.EACCES, False),
    "over quota": (WRITES, errno.EDQUOT, True),
}


def failing(staged, kind, numbers):
    """Let calls fail one after the other; returns how often the command failed with that."""
    calls, number_of_error, for_good = KINDS[kind]
    failed = 0
    for number in numbers:
        call = staged.undisturbed.calls[number - 1]
        if f",{call.name}," not in calls:
            continue
        folder = staged.fresh()
        outcome = staged.run(folder, Rule(number, EVER if for_good else number, calls, BEFORE, number_of_error))
        about = f"{kind}, call {number}: {call}: {outcome.code} {outcome.err}"
        assert not outcome.killed, about
        intact = staged.scenario.is_intact(folder, staged.before, staged.after)
        if outcome.code in (0, 1):
            assert intact, about
        else:
            failed += 1
            assert outcome.code == 2, about
            assert "report it" not in outcome.err, about
            assert any(os.strerror(number_of_error) in line for line in reported(outcome.err)), about
            # What could not be removed stays; so may what was to be put back and could not.
            removable = not for_good and call.name not in ("unlink", "exchange")
            assert not (removable and leftovers(folder)) or "index" in staged.scenario.name, about
        staged.again(folder, intact)
        staged.discard(folder)
    return failed


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_call_fails(name, kind, stage):
    staged = stage(name)
    assert failing(staged, kind, range(1, len(staged.undisturbed.calls) + 1))


@pytest.mark.parametrize("name", ["embed", "zones build", "index append"])
def test_some_calls_fail(name, stage):
    staged = stage(name)
    numbers = range(1, len(staged.undisturbed.calls) + 1)
    for kind, some in (("full disk for good", numbers[1::9]), ("failing disk", numbers[::-9]), ("not permitted", [1])):
        failing(staged, kind, some)


def range_copies_that_end_with(number):
    return Rule(1, 6, ",copy_file_range,", HALF, SHORT), Rule(7, EVER, ",copy_file_range,", BEFORE, number)


EINTR = [Rule(at, at, f"{WRITES}fsync,open,ftruncate,", BEFORE, errno.EINTR) for at in range(1, 15)]
SHORT_WRITES = [Rule(1, EVER, WRITES, HALF, SHORT)]


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        *itertools.product(
            ["embed", "embed without exchange", "zones over another", "first index append"], [SHORT_WRITES, EINTR]
        ),
        *(
            ("embed", range_copies_that_end_with(number))
            for number in (errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EIO)
        ),
    ],
)
def test_what_is_written_by_halves_is_completed(name, rules, stage):
    staged = stage(name)
    folder = staged.fresh()
    outcome = staged.run(folder, *rules)
    assert outcome.code in (0, 1), outcome.err
    assert staged.scenario.is_intact(folder, staged.after, staged.after)
    staged.scenario.swept(folder)


def test_a_new_name_whose_link_was_made_twice_is_ours(stage):
    """As over NFS, when an answer gets lost: the name is taken, by the file that should have it."""
    staged = stage("index append without rename_new")
    folder, at = staged.fresh(), staged.number_of("link")
    outcome = staged.run(folder, Rule(at, at, "", AFTER, errno.EEXIST))
    assert outcome.code == 0, outcome.err
    assert staged.scenario.is_intact(folder, staged.before, staged.after)
    staged.scenario.swept(folder)


def test_a_folder_that_cannot_be_flushed_is_reported(stage):
    staged = stage("drop to")
    folder, at = staged.fresh(), staged.number_of("fsync")
    outcome = staged.run(folder, Rule(at, at, "", BEFORE, errno.EIO))
    assert outcome.code == 2
    assert "it was replaced, but its folder cannot be flushed" in outcome.err


@pytest.mark.parametrize("name", ["embed", "drop a column, old kernel"])
def test_a_call_that_was_done_and_says_that_it_failed(name, stage):
    """As over a network, when the answer is lost."""
    staged = stage(name)
    for call in staged.undisturbed.calls:
        if call.name in ("rename", "exchange", "rename_new", "unlink", "fsync"):
            folder = staged.fresh()
            outcome = staged.run(folder, Rule(call.number, call.number, "", AFTER, errno.EIO))
            intact = staged.scenario.is_intact(folder, staged.before, staged.after)
            assert intact or outcome.code == 2, (call, outcome)
            staged.again(folder, intact)
            staged.discard(folder)


# ------------------------------------------------------------------------------------------------------ real ones


@pytest.mark.parametrize("spare", [0, 12])
def test_a_disk_that_is_full(disk, spare, capsys):
    """The disk has room for one copy of the file, but not for two."""
    path = disk / "a.parquet"
    pq.write_table(table(1, 9_000), path, row_group_size=1_000, compression="none", use_dictionary=False)
    data = path.read_bytes()
    with LakeIndex.create(str(disk / "index"), ["id"]):
        pass
    status = os.statvfs(disk)
    (disk / "fill").write_bytes(bytes(max(0, status.f_bavail - spare) * status.f_frsize))
    commands = (
        ["embed", path, "--column", "id", "--in-place"],
        ["embed", path, "--column", "name", "-o", disk / "out" / "a.parquet"],
        ["zones", "build", path, "--column", "id", "-o", disk / "ids.zones.parquet"],
    )
    for command in commands:
        assert main([str(argument) for argument in command]) == 2
        (line,) = reported(capsys.readouterr().err)
        assert line.endswith("No space left on device")
        assert path.read_bytes() == data
        assert not leftovers(disk)
    with LakeIndex.open(str(disk / "index")) as index:
        if not spare:
            with pytest.raises(StorageError, match="No space left on device"):
                index.append(path)
        (disk / "fill").unlink()
        index.append(path)
        assert index.check(sample=2).problems == []
    assert parquet_bloom.embed(path, ["id"]).changed


def test_a_disk_that_may_only_be_read(disk, capsys):
    path = disk / "a.parquet"
    pq.write_table(table(1), path)
    data = path.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for command in (["embed", path, "--column", "id", "--in-place"], ["index", "create", disk / "index", "id"]):
        assert main([str(argument) for argument in command]) == 2
        (line,) = reported(capsys.readouterr().err)
        assert "Read-only file system" in line or "may not be written" in line
    assert path.read_bytes() == data
