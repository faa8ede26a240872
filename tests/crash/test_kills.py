"""Every command that writes, killed or interrupted at each system call by which it changes the disk."""

from __future__ import annotations

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
