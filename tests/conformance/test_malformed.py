"""Broken filters: a row is never lost to one, and every report says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.malformed import malformed

import parquet_bloom
from parquet_bloom import MetadataCache

NAMES = [name for name, *_ in malformed.CASES]


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> dict[str, malformed.Case]:
    folder = tmp_path_factory.mktemp("malformed")
    good = malformed.good_file(tmp_path_factory.mktemp("good") / "good.parquet")
    return {case.name: case for case in malformed.cases(good, folder)}


def tool(broken: dict[str, malformed.Case], *words: str) -> tuple[int, list[dict]]:
    """Run `parquet-bloom` on all the files at once: its exit code and its rows."""
    folder = next(iter(broken.values())).path.parent
    command = "import sys; from parquet_bloom.cli import main; sys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-c", command, words[0], "--format", "ndjson", *words[1:], str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in run.stdout + run.stderr
    return run.returncode, [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def shown(broken) -> list[dict]:
    """Run `parquet-bloom show` and return its output."""
    return tool(broken, "show")[1]


@pytest.fixture(scope="module")
def verified(broken) -> list[dict]:
    """Run `parquet-bloom verify` and return its output."""
    code, rows = tool(broken, "verify", "--data")
    assert code == 1  # a filter is bad
    return rows


def test_the_good_file_is_pruned_to_one_row_group(tmp_path):
    """Broken filters cost pruning; without this the tests below would pass for a reader that never prunes."""
    path = malformed.good_file(tmp_path / "good.parquet")
    assert parquet_bloom.verify(path, data=True).ok
    for row_group, key in malformed.needles():
        assert parquet_bloom.prune(path, f"key = {key}").selected == {str(path): [row_group]}


@pytest.mark.default
@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_lost(name, broken):
    case = broken[name]
    for row_group, key in malformed.needles():
        selected = parquet_bloom.prune(case.path, f"key = {key}").selected[str(case.path)]
        assert row_group in selected
        # What is doubtful is read, and nothing else.
        assert set(selected) == {row_group, *case.row_groups}
        assert parquet_bloom.read_table(case.path, f"key = {key}", columns=["key"])["key"].to_pylist() == [key]


@pytest.mark.parametrize("name", NAMES)
def test_doubts_are_reported(name, broken):
    case = broken[name]
    _, key = malformed.needles()[-1]
    doubts = [str(doubt).lower() for doubt in parquet_bloom.prune(case.path, f"key = {key}").doubts]
    assert bool(doubts) == bool(case.expected_kind)
    assert all(any(word in doubt for word in case.expected_kind) for doubt in doubts), doubts


def test_files_judged_together_are_judged_as_one_alone(broken):
    """Footers are read, cached, or cached with everything that was read along with them."""
    paths = sorted(str(case.path) for case in broken.values())
    footers_alone, cache = MetadataCache(), MetadataCache()
    for path in paths:
        parquet_bloom.open(path, cache=footers_alone).close()
    for _, key in malformed.needles():
        where = f"key = {key}"
        expected = [file for path in paths for file in parquet_bloom.prune(path, where, cache=None).files]
        for cached in (None, footers_alone, cache, cache):
            assert list(parquet_bloom.prune(paths, where, cache=cached).files) == expected


@pytest.mark.parametrize("name", NAMES)
def test_verify_says_what_is_wrong(name, broken):
    case = broken[name]
    for data in (False, True):
        report = parquet_bloom.verify(case.path, data=data)
        assert report.ok == (not case.expected_kind), [str(problem) for problem in report.problems]
        results = {problem.row_group for problem in report.problems if problem.column == malformed.COLUMN}
        assert results == set(case.row_groups)
        for problem in report.problems:
            assert any(word in str(problem).lower() for word in case.expected_kind), str(problem)
            assert "\n" not in str(problem)
            assert str(case.path) in str(problem)


@pytest.mark.parametrize("name", NAMES)
def test_open_says_what_is_wrong(name, broken):
    case = broken[name]
    with parquet_bloom.open(case.path) as file:
        for chunk in file.chunks(columns=[malformed.COLUMN]):
            assert (chunk.problem is not None) == (chunk.row_group in case.row_groups), chunk.problem
            if chunk.problem is None:
                assert chunk.filter.num_bytes == chunk.num_bytes
                continue
            assert any(word in chunk.problem.lower() for word in case.expected_kind), chunk.problem
            with pytest.raises(parquet_bloom.errors.BrokenFilterError, match=f"row group {chunk.row_group}"):
                file.filter(chunk.row_group, malformed.COLUMN)


@pytest.mark.parametrize("command", ["show", "verify"])
@pytest.mark.parametrize("name", NAMES)
def test_the_tool_says_what_is_wrong(name, command, broken, shown, verified):
    case = broken[name]
    output = {"show": shown, "verify": verified}[command]
    rows = [row for row in output if row["file"] == str(case.path) and row["column"] == malformed.COLUMN]
    assert [row["row_group"] for row in rows] == list(range(malformed.GROUPS))
    for row in rows:
        problem = row["problem"]
        assert bool(problem) == (row["row_group"] in case.row_groups), problem
        assert not problem or any(word in problem.lower() for word in case.expected_kind), problem


def test_the_tool_selects_every_row_that_matches(broken):
    row_group, key = malformed.needles()[2]
    assert row_group == malformed.BROKEN
    code, rows = tool(broken, "prune", "--where", f"key = {key}")
    assert code == 0
    read = {(row["file"], row["row_group"]) for row in rows if row["read"]}
    assert {(str(case.path), row_group) for case in broken.values()} <= read
    assert len(read) < len(rows) / 2  # and not simply everything


@pytest.mark.parametrize("name", NAMES)
def test_embedding_mends_it(name, broken, tmp_path):
    """`replace=True` builds the broken filter anew; without it, a filter that cannot be kept is an error, not kept."""
    case = broken[name]
    output = tmp_path / "mended.parquet"
    parquet_bloom.embed(case.path, ["key", "other"], output=output, replace=True)
    assert parquet_bloom.verify(output, data=True).ok
    for row_group, key in malformed.needles():
        assert parquet_bloom.prune(output, f"key = {key}").selected == {str(output): [row_group]}
    if case.expected_kind:
        before = case.path.read_bytes()
        with pytest.raises(parquet_bloom.errors.ParquetBloomError, match="row group"):
            parquet_bloom.embed(case.path, ["key", "other"])
        assert case.path.read_bytes() == before
