"""Every command that writes, killed, interrupted or failing at each system call by which it changes the disk.

A kill leaves the old files or the new ones; an error is one line, exit code 2, the old files and nothing left over.
What a power loss leaves is derived from the order of calls: a file system may keep back what is written until it is
flushed, and may put names on disk before contents.
"""

from __future__ import annotations

import errno
import itertools
import os
import struct
import subprocess
from collections import defaultdict

import pyarrow.parquet as pq
import pytest
from faulty import AFTER, BEFORE, EVER, HALF, INTERRUPT, KILL, SHORT, WRITES, Rule
from scenarios import LEFTOVER, SCENARIOS, leftovers, moments, reported, table
from support.scale import sampled
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.cli import main
from parquet_bloom.errors import StorageError
from parquet_bloom.lake.lake_index import LakeIndex

pytestmark = pytest.mark.crash


def killed(stage, some):
    """Kill the command at each of some moments; returns how often it was done by then."""
    done = 0
    for number, when in some:
        folder = stage.fresh()
        outcome = stage.run(folder, Rule(number, number, "", when, KILL))
        assert outcome.killed, (number, when, outcome)
        intact = stage.scenario.is_intact(folder, stage.before, stage.after)
        stage.again(folder, intact)
        done += intact
        stage.discard(folder)
    return done


@pytest.mark.parametrize("name", sampled(SCENARIOS, 3 * len(SCENARIOS)))
def test_killed_at_each_call(name, stage):
    staged = stage(name)
    some = moments(staged.undisturbed.calls)
    assert 0 < killed(staged, some) < len(some)


@pytest.mark.parametrize(
    "name",
    [
        *("embed", "embed without exchange", "drop", "erase", "zones over another", "index append", "index compact"),
        *("first cuckoo index append", "zone index compact", "first late grams append"),
    ],
)
def test_killed_about_the_moment_of_change(name, stage):
    """A slice of the above: the calls that change names, and the calls right before and after them."""
    staged = stage(name)
    changes = [call.number for call in staged.undisturbed.calls if call.name in ("exchange", "rename", "rename_new")]
    calls = len(staged.undisturbed.calls)
    some = [(number, when) for number in changes[-2:] for when in (BEFORE, AFTER)]
    some += [(calls // 2, HALF), (calls, BEFORE)]
    assert 0 < killed(staged, some) < len(some)


@pytest.mark.parametrize("name", ["embed", "embed without exchange", "embed over another"])
def test_interrupted_at_many_calls(name, stage):
    """As by Ctrl-C: what was not done is cleaned up."""
    staged = stage(name)
    for number, when in moments(staged.undisturbed.calls)[::6]:
        folder = staged.fresh()
        outcome = staged.run(folder, Rule(number, number, "", when, INTERRUPT))
        intact = staged.scenario.is_intact(folder, staged.before, staged.after)
        assert outcome.code == 130 or (intact and not outcome.code), (number, when, outcome)
        staged.again(folder, intact)
        assert not leftovers(folder)
        staged.discard(folder)


# An access list: another user may read and write, the group nothing, though the mask, the mode's middle, is rw.
ENTRIES = [(1, 6, -1), (2, 6, 12345), (4, 0, -1), (0x10, 6, -1), (0x20, 0, -1)]
ACCESS_LIST = struct.pack("<i", 2) + b"".join(struct.pack("<HHi", *entry) for entry in ENTRIES)


@pytest.mark.parametrize("listed", [False, True])
def test_nobody_gets_more_access_meanwhile(listed, stage):
    """Without its access list the group would have the rights of the list's mask, which it has not."""
    staged = stage("embed")
    opened, renamed = (staged.number_of(name) for name in ("open", "rename"))
    for number in range(opened, renamed):
        folder = staged.fresh()
        path = folder / staged.scenario.kept
        if listed:
            os.setxattr(path, "system.posix_acl_access", ACCESS_LIST)
        assert staged.run(folder, Rule(number, number, "", AFTER, KILL)).killed
        (stray,) = leftovers(folder)
        has_list = "system.posix_acl_access" in os.listxattr(stray)
        assert stray.stat().st_mode & 0o777 in (0o600, *([path.stat().st_mode & 0o777] if has_list == listed else []))
        staged.discard(folder)


# Calls that fail

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
        ["erase", path, "--where", "id < 700", "--in-place", "--yes"],
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
    pytest.importorskip("deltalake")
    path, root = disk / "a.parquet", tables.make_delta(disk / "t", 1, partitioned=False)
    pq.write_table(table(1), path)
    pq.write_table(tables.rows(7, 1), disk / "more.parquet")
    data, rows = path.read_bytes(), tables.read_delta(root)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    commands = (
        ["embed", path, "--column", "id", "--in-place"],
        ["index", "create", disk / "index", "--column", "id"],
        ["erase", path, "--where", "id < 700", "--in-place", "--yes"],
        ["delete", root, "--key", "id=7", "--commit", "--yes"],
        ["upsert", root, "--rows", disk / "more.parquet", "--key-column", "id", "--commit", "--yes"],
    )
    for command in commands:
        assert main([str(argument) for argument in command]) == 2
        (line,) = reported(capsys.readouterr().err)
        assert "Read-only file system" in line or "may not be written" in line
    assert (path.read_bytes(), tables.read_delta(root)) == (data, rows)


# Power losses

CONTENTS = f"{WRITES}ftruncate,fallocate,clone,fchmod,fchown,fsetxattr,"
RENAMES = {"rename", "exchange", "rename_new", "link"}
LOCK = "writer.lock"


def problems(calls, there):
    """Return the problems that a power loss would cause, a line each.

    Parameters
    ----------
    calls : those that were made.
    there : paths of the files that were there before.
    """
    results = []
    unflushed = {}  # inode: the last change of its contents
    names = defaultdict(list)  # folder: changes of names that may not last yet
    created = {}  # folder that was made: the folder that has its name
    for call in calls:
        if call.result < 0 or call.path.endswith(f"/{LOCK}") or "(deleted)" in call.path or "/scratch" in call.path:
            continue
        folder = os.path.dirname(call.path)
        if f",{call.name}," in CONTENTS:
            unflushed[call.inode] = call
            if not LEFTOVER.fullmatch(os.path.basename(call.path)):
                results.append(f"{call.path} is written in its place, by {call.name}")
        elif call.name == "open":
            names[folder].append(call)
        elif call.name in ("fsync", "fdatasync"):
            unflushed.pop(call.inode, None)
            names.pop(call.path, None)
            created = {below: above for below, above in created.items() if above != call.path}
        elif call.name in RENAMES:
            final = not LEFTOVER.fullmatch(os.path.basename(call.other))
            if call.inode in unflushed and final:
                results.append(f"{call.other} gets its name before {unflushed[call.inode].name} is flushed")
            others = [each for each in names[folder] if each.name in RENAMES and "manifest" not in each.other]
            if "manifest" in call.other and others:
                results.append(f"{call.other} names files whose names are not flushed: {others}")
            names[folder].append(call)
        elif call.name == "mkdir":
            created[call.path] = folder
        elif call.name == "unlink":
            changed = [each for each in names[folder] if each.name in ("exchange", "rename", "rename_new")]
            old = call.path in there or call.path.endswith(".old")
            if old and any(".crc" not in each.other and not each.other.endswith(".old") for each in changed):
                results.append(f"{call.path} is removed before what replaces it lasts")
    if unflushed:
        results.append(f"never flushed: {[call.path for call in unflushed.values()]}")
    for folder, changed in names.items():
        replaced = [each.other for each in changed if each.name in RENAMES]
        if any(".crc" not in name and not LEFTOVER.fullmatch(os.path.basename(name)) for name in replaced):
            results.append(f"{folder} is not flushed after {replaced}")
    results += [f"the name of the folder {below} is not flushed" for below in created]
    return results


@pytest.mark.parametrize("name", SCENARIOS)
def test_data_are_flushed_before_their_names_and_names_before_removals(name, stage):
    staged = stage(name)
    folder = staged.fresh()
    there = {str(path) for path in folder.rglob("*")}
    calls = staged.run(folder).calls
    assert any(call.name == "fsync" for call in calls)
    assert problems(calls, there) == []


@pytest.mark.parametrize(
    ("name", "drop", "problem"),
    [
        ("embed", ("fsync", 0), "gets its name before"),
        ("embed", ("fsync", 1), "is not flushed after"),
        ("index append", ("fsync", -3), "names files whose names are not flushed"),
        ("index append", ("fsync", -2), "gets its name before"),
    ],
)
def test_a_missing_flush_is_reported(name, drop, problem, stage):
    """The rules above can fail: a call is taken out of what was recorded."""
    calls = list(stage(name).undisturbed.calls)
    kind, number = drop
    calls.remove([call for call in calls if call.name == kind][number])
    assert any(problem in each for each in problems(calls, set())), problems(calls, set())


def test_a_write_after_the_flush_is_reported(stage):
    calls = list(stage("embed").undisturbed.calls)
    flushed = next(number for number, call in enumerate(calls) if call.name == "fsync")
    calls.insert(flushed + 1, calls[flushed - 1])
    assert any("gets its name before" in each for each in problems(calls, set()))
