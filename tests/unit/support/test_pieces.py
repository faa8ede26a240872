"""Everything in pieces: no test is in none of them or in two, and what is recorded is what happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import pieces
from support.pieces import Piece, Result

TESTS = {
    **{f"tests/test_{file}.py::test_{number}": f"tests/test_{file}.py" for file in range(40) for number in range(5)},
    **{(name := f"tests/test_long.py::test_it[{number}]"): name for number in range(200)},
}
ENDED = {"passed": ["a::1", "a::2"], "skipped": ["b::1"]}
PIECE = Piece(7, ("a::1", "a::2", "b::1"))


def test_each_test_is_in_one_piece() -> None:
    cut = pieces.cut(TESTS, 9)
    assert sorted(test for piece in cut for test in piece.tests) == sorted(TESTS)
    assert [piece.number for piece in cut] == list(range(1, 10))
    for file in range(40):
        assert sum(f"tests/test_{file}.py::test_0" in piece.tests for piece in cut) == 1
        assert any({f"tests/test_{file}.py::test_{n}" for n in range(5)} <= set(piece.tests) for piece in cut)
    assert all(any("test_long" in test for test in piece.tests) for piece in cut)


def test_another_test_changes_one_piece() -> None:
    before, after = pieces.cut(TESTS, 9), pieces.cut({**TESTS, "tests/test_new.py::test": "tests/test_new.py"}, 9)
    assert sum(old.digest != new.digest for old, new in zip(before, after, strict=True)) == 1


def test_results_of_a_piece() -> None:
    good = pieces.judge(PIECE, "c", 0, ENDED, 1.6)
    assert good == Result(7, PIECE.digest, "c", 2, 1, [], 2)
    assert pieces.judge(PIECE, "c", 1, {**ENDED, "error": ["a::2"]}, 1).failing == ["a::2"]
    assert pieces.judge(PIECE, "c", 0, {"passed": ["a::1"]}, 1).failing == ["a::2", "b::1"]  # nothing came of these
    assert pieces.judge(PIECE, "c", 3, {}, 1).failing == list(PIECE.tests)
    assert pieces.judge(PIECE, "c", 3, ENDED, 1).failing == ["pytest, with exit code 3"]


def test_the_record(tmp_path: Path) -> None:
    record = tmp_path / "all.jsonl"
    assert pieces.read_record(record) == []
    first, second = (pieces.judge(PIECE, commit, 0, ENDED, 1) for commit in ("c1", "c2"))
    pieces.add_to_record(record, first)
    with record.open("ab") as file:
        file.write(b'\n{"piece": 8, "tests": "ab')  # the power went
    pieces.add_to_record(record, second)
    assert pieces.read_record(record) == [first, second]

    kept = [PIECE], [first, second]
    assert pieces.finished(*kept, "c1") == {7: first}
    assert pieces.finished(*kept, None) == {7: second}
    assert pieces.finished(*kept, "c3") == {}
    assert pieces.finished([Piece(7, ("a::1",))], [first], None) == {}  # it has other tests now
    bad = pieces.judge(PIECE, "c2", 1, {}, 1)
    assert pieces.finished([PIECE], [first, second, bad], "c2") == {7: bad}


def test_a_run_continues(capsys: pytest.CaptureFixture[str]) -> None:
    """What passed is not run again, what failed is, and any failure is the run's."""
    three = [Piece(number, (f"t::{number}",)) for number in (1, 2, 3)]
    ran: list[int] = []

    def run(piece: Piece) -> Result:
        ran.append(piece.number)
        return pieces.judge(piece, "c", 1, {"failed" if piece.number == 3 else "passed": list(piece.tests)}, 60)

    passed = pieces.judge(three[0], "b", 0, {"passed": ["t::1"]}, 60)
    failed = pieces.judge(three[1], "c", 1, {"failed": ["t::2"]}, 60)
    assert not pieces.run_all(three, {1: passed, 2: failed}, run)
    assert ran == [2, 3]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "piece 1 of 60: 1 passed, 60 s (before)"
    assert "FAILED t::3" in lines
    assert pieces.run_all(three[:1], {1: passed}, run)


def test_it_runs_pytest(tmp_path: Path) -> None:
    """Tests are collected and run by their names, however odd, in the tier `all`."""
    environment = os.environ | {"PYTHONPATH": str(pieces.PROJECT / "tests")}
    program = (
        "import json, sys, pathlib\n"
        "from support import pieces\n"
        "pieces.PROJECT = pieces.LOGS = pathlib.Path(sys.argv[1])\n"
        "code, tests = pieces.pytest_once(pieces.LOGS / 'a.log', '--collect-only')\n"
        "print(json.dumps([tests, *pieces.pytest_once(pieces.LOGS / 'b.log', *tests)]))\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    conftest = "pytest_plugins = []\nimport pytest\nfrom support import pieces\n"
    conftest += "from pathlib import Path\n"
    conftest += (
        "def pytest_addoption(parser):\n    parser.addoption('--tier')\n    parser.addoption('--report', type=Path)\n"
    )
    conftest += "def pytest_configure(config):\n    assert config.getoption('--tier') == 'all'\n"
    conftest += "    config.pluginmanager.register(pieces.Report(config.getoption('--report')))\n"
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_odd.py").write_text(
        "import pytest\n"
        "@pytest.mark.slow\n"
        "@pytest.mark.parametrize('value', ['a b', 'x::y', '[z]', '*', 'é\\n'])\n"
        "def test_slow(value):\n    assert value != '*'\n"
        "def test_quick():\n    pytest.skip('no')\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    tests, code, outcomes = json.loads(ended.stdout)
    assert {test.split("[")[0] for test in tests} == {"test_odd.py::test_slow", "test_odd.py::test_quick"}
    assert all(unit == (test if "slow" in test else "test_odd.py") for test, unit in tests.items())
    assert (code, len(outcomes["passed"]), outcomes["failed"]) == (1, 4, ["test_odd.py::test_slow[*]"])
    assert outcomes["skipped"] == ["test_odd.py::test_quick"]
