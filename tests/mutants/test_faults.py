"""The list of faults fits the sources and the tests as they are, so that `make mutants` can plant and catch each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench
import catalogue

FAULTS = catalogue.load()


def test_each_fault_can_be_planted_and_its_tests_exist() -> None:
    problems = [f"{fault.name}: {problem}" for fault in FAULTS if (problem := fault.problem())]
    assert not problems, "\n".join(problems)


def test_a_fault_of_the_default_tier_has_a_test_there(request: pytest.FixtureRequest) -> None:
    plugins = request.config.pluginmanager.get_plugins()
    (folders,) = {plugin.CI_FOLDERS for plugin in plugins if hasattr(plugin, "CI_FOLDERS")}

    def may_run(test: str) -> bool:
        path = catalogue.PROJECT / test.partition("::")[0]
        return test.split("/")[1] not in folders or "mark.default" in path.read_text(encoding="utf-8")

    assert [fault.name for fault in FAULTS if fault.tier == "default" and not any(map(may_run, fault.tests))] == []


def test_no_two_faults_have_one_name() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names)) >= 40


def test_each_folder_of_the_package_has_a_fault() -> None:
    package = catalogue.PROJECT / FAULTS[0].file.partition("/")[0]
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    folders -= {"adapters"}  # whose tests are in no tier: their libraries have an environment of their own
    assert folders <= {fault.folder.partition("/")[0] for fault in FAULTS}


def test_what_counts_as_caught_is_a_failed_test() -> None:
    lines = [
        "FAILED tests/a.py::test_one[x y] - assert 1 == 2",
        "ERROR tests/b.py::test_two - OSError",
        "FAILED tests/c.py::test_three",
    ]
    assert bench.failed("\n".join(lines)) == ["tests/a.py::test_one", "tests/c.py::test_three"]


def test_a_fault_that_does_not_fit_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "test_m.py").write_text("def test_it(): pass\n")
    good = {"name": "n", "breaks": "it", "file": "m.py", "old": "a = 1", "new": "a = 2", "tier": "ci"}
    for change, problem in [
        ({}, None),
        ({"file": "x.py"}, "there is no x.py"),
        ({"old": "= 1"}, "occurs 2 times"),
        ({"old": "c"}, "occurs 0 times"),
        ({"new": "a = 1"}, "is the old one"),
        ({"tier": "slow"}, "is not a tier"),
        ({"tests": ["test_m.py::test_other"]}, "no test_m.py::test_other"),
    ]:
        message = catalogue.Fault.of({"tests": ["test_m.py::test_it"], **good, **change}).problem(tmp_path)
        assert message is None if problem is None else problem in str(message), change
