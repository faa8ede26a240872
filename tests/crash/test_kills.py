"""Every command that writes, killed at each system call by which it changes the disk."""

from __future__ import annotations

import pytest
from faulty import AFTER, BEFORE, HALF, KILL, Rule
from scenarios import SCENARIOS, moments

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


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_each_call(name, stage, capsys):
    staged = stage(name)
    some = moments(staged.undisturbed.calls)
    done = killed(staged, some)
    assert 0 < done < len(some)
    with capsys.disabled():
        print(f"\n{name}: {len(some)} kills, the old state {len(some) - done} times, the new one {done} times")


@pytest.mark.default
@pytest.mark.parametrize("name", ["embed", "embed without exchange", "drop", "zones over another", "index compact"])
def test_killed_about_the_moment_of_change(name, stage):
    """A slice of the above: the calls that change names, and the calls right before and after them."""
    staged = stage(name)
    changes = [call.number for call in staged.undisturbed.calls if call.name in ("exchange", "rename", "rename_new")]
    calls = len(staged.undisturbed.calls)
    some = [(number, when) for number in changes[-2:] for when in (BEFORE, AFTER)]
    some += [(calls // 2, HALF), (calls, BEFORE)]
    done = killed(staged, some)
    assert 0 < done < len(some)
