"""Every command that writes, killed or interrupted at each system call by which it changes the disk."""

from __future__ import annotations

import os
import struct

import pytest
from faulty import AFTER, BEFORE, HALF, INTERRUPT, KILL, Rule
from scenarios import SCENARIOS, leftovers, moments

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


@pytest.mark.parametrize(
    "name",
    ["embed", "embed without exchange", *(pytest.param(name, marks=pytest.mark.long) for name in [*SCENARIOS][2:])],
)
def test_killed_at_each_call(name, stage):
    staged = stage(name)
    some = moments(staged.undisturbed.calls)
    assert 0 < killed(staged, some) < len(some)


@pytest.mark.default
@pytest.mark.parametrize("name", ["embed", "embed without exchange", "drop", "zones over another", "index compact"])
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
