"""Results of a power loss, derived from the order of calls: data last before names do, and names before removals.

A file system may keep back what is written until it is flushed, and may put names on disk before contents.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest
from faulty import WRITES
from scenarios import LEFTOVER, SCENARIOS

pytestmark = pytest.mark.crash

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
