"""Every field of the metadata wrong in every way: rows are found or refused by name, and nothing else happens.

A sixtieth of the matrix in CI; all of it in the long tier, or, for an hour or two, by hand with a table of what
came of it: `python tests/support/malformed/malformed_matrix.py parquet FOLDER`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.malformed import malformed_asking as asking
from support.malformed import malformed_fields as fields
from support.malformed import malformed_matrix as matrix
from support.malformed import malformed_orc, malformed_orc_asking


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    return fields.good_file(tmp_path_factory.mktemp("good") / "good.parquet")


def wrong(answers: list[matrix.Answer]) -> list[str]:
    return [str(answer) for answer in answers if answer.kind not in (asking.RIGHT, asking.READ_ALL, asking.REFUSED)]


def test_the_matrix_is_whole(good):
    """Each field in each of its ways, and none twice."""
    cases = fields.cases(good)
    assert len({str(case) for case in cases}) == len(cases) > 2_000
    assert len({(case.area, case.field) for case in cases}) == len(fields.list_fields(fields.Patient(good))) + 1 > 80
    for case in random.Random(1).sample(cases, 50):
        assert fields.write(case, good, good.with_name("case.parquet")).read_bytes() != good.read_bytes()


@pytest.mark.parametrize("question", asking.QUESTIONS)
def test_the_good_file_answers_all(question, good, tmp_path):
    assert asking.ask(question, good, tmp_path / "made") == asking.RIGHT


PARTS = 60  # one of them in CI
EACH_PART = [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))]


@pytest.mark.parametrize("part", EACH_PART)
def test_the_matrix(part, good, tmp_path):
    numbers = range(len(fields.cases(good)))[part::PARTS]
    answers = list(matrix.run(good, tmp_path, numbers, asking.QUESTIONS))
    assert len(answers) == len(asking.QUESTIONS) * len(numbers) > 0
    assert wrong(answers) == []
    print(matrix.table(answers))


@pytest.mark.parametrize("part", EACH_PART)
def test_the_matrix_of_orc(part, tmp_path):
    good = malformed_orc.good_file(tmp_path / "good.orc")
    numbers = range(len(malformed_orc.cases(good)))[part::PARTS]
    answers = list(matrix.run(good, tmp_path, numbers, malformed_orc_asking.QUESTIONS, "orc"))
    assert len(answers) == len(malformed_orc_asking.QUESTIONS) * len(numbers) > 0
    assert wrong(answers) == []
    print(matrix.table(answers))


SAMPLE: list[tuple[str, str | int, str]] = [
    ("row group", 3, "zero"),
    ("column metadata", 5, "2^63-1"),
    ("column metadata", 9, "-2^63"),
    ("column metadata", 12, "structs-very-deep"),
    ("schema leaf", 4, "a-megabyte"),
    ("file", 4, "says-2^31"),
    ("filter header", 1, "2^31-1"),
    ("filter algorithm", 1, "missing"),
    ("bitset", "bitset", "missing"),
]


@pytest.mark.parametrize("command", ["show", "verify", "prune", "embed", "drop"])
def test_the_tool(command, good, tmp_path):
    """All of the sample at once: an exit code that is documented, a line of problem a file, no traceback."""
    lake = tmp_path / "lake"
    lake.mkdir()
    for number, case in enumerate(SAMPLE):
        fields.write(fields.Case(*case), good, lake / f"{number}.parquet")
    where = ["--where", next(fields.needles())[0]] if command == "prune" else []
    columns = ["--column", "key"] if command == "embed" else []
    words = [*columns, "--in-place"] if command in ("embed", "drop") else []
    words = [command, "--format", "ndjson", *where, *words, str(lake)]
    program = "import sys; from parquet_bloom.cli import main; sys.exit(main())"
    run = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert "Traceback" not in run.stdout + run.stderr
    assert run.returncode in (0, 1, 2), run.stderr
    message = [line for line in run.stderr.splitlines() if line.startswith("error: ") and str(lake) in line]
    assert all(len(line) < 3_000 for line in run.stderr.splitlines())
    for line in run.stdout.splitlines():
        json.loads(line)
    if command == "embed":
        assert run.returncode != 0
        assert message
