"""Operations on a malformed file, and permitted outcomes: the right answer, or an error of one line."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom import LakeIndex, zones
from parquet_bloom.errors import ParquetBloomError
from support.malformed import malformed_fields
from support.oracle import oracle

RIGHT, REFUSED, READ_ALL = "right", "refused", "in doubt"
"""Outcomes: the answer was right; one line says that it cannot be had; it was right, and a doubt was reported."""

Question = Callable[[Path, Path], str]
"""Given the file and a folder for what is made of it; an outcome, or AssertionError, or the error of a refusal."""

TABLE = malformed_fields.good_table()
COLUMNS = ("key", "other", "row")
NEEDLES = list(malformed_fields.needles())


class Truth:
    """Columns of a file as pyarrow reads them; None where it cannot."""

    def __init__(self, path: Path):
        self.columns: dict[str, pa.ChunkedArray | None] = {}
        for name in COLUMNS:
            try:
                self.columns[name] = pq.ParquetFile(path).read([name]).column(name)
            except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError):
                self.columns[name] = None

    def rows(self, where: str) -> int | None:
        """Return the number of rows that match `name = value`; None if pyarrow cannot read them."""
        name, value = where.split(" = ")
        column = self.columns[name]
        if column is None:
            return None
        literal = value.strip("'") if name == "other" else int(value)
        try:
            return pc.sum(pc.equal(column, pa.scalar(literal, TABLE[name].type)), min_count=0).as_py()
        except pa.ArrowException:
            return None  # it is of another type now


def check_rows(path: Path, truth: Truth, **options: object) -> str:
    """Every row that the file holds is found, or the reading of it refused."""
    refused, doubted = None, False
    for where, row in NEEDLES if not options else NEEDLES[1::2]:
        name = where.split(" = ")[0]
        expected = truth.rows(where)
        try:
            result = parquet_bloom.read_table(path, where, columns=[name], **options).num_rows
            doubted |= not options and _doubted(path, where, result, row)
        except ParquetBloomError as error:
            named(error, path)
            refused = error
            continue
        assert result >= (1 if expected is None else expected), f"LOST {where}: {result} rows, pyarrow says {expected}"
    if refused is not None:
        raise refused
    return READ_ALL if doubted else RIGHT


def _doubted(path: Path, where: str, result: int, row: int) -> bool:
    """Return whether the plan reports a doubt; check that batches and row ranges agree with the table."""
    report = parquet_bloom.prune(path, where)
    for doubt in report.doubts:
        one_line(str(doubt))
    batches = parquet_bloom.dataset(path).scan(where, columns=[where.split(" = ")[0]]).to_reader()
    assert sum(batch.num_rows for batch in batches) == result, f"{where}: batches say something else"
    group, position = divmod(row, malformed_fields.ROWS_PER_GROUP)
    ranges = parquet_bloom.dataset(path).scan(where).row_ranges()[str(path)].get(group, []) if result else []
    assert not result or any(start <= position < stop for start, stop in ranges), (
        f"LOST {where} by row_ranges: {ranges}"
    )
    return bool(report.doubts)


def named(error: ParquetBloomError, path: Path) -> None:
    """An error says on one line which file it is about, and what is wrong with it."""
    one_line(str(error))
    assert str(path) in str(error) or str(path.parent) in str(error), f"no path: {error}"
    assert len(error.problem) > 8, f"no problem: {error}"


def one_line(text: str) -> None:
    assert "\n" not in text, f"not one line: {text!r}"
    assert len(text) < 2000, f"not one line: {text[:200]}... of {len(text)}"
    assert not re.search(r"object at 0x|Traceback", text), text


# ------------------------------------------------------------------------------------------------------------ questions


def show(path: Path, folder: Path) -> str:
    with parquet_bloom.open(path) as file:
        problems = [chunk.problem for chunk in file.chunks()]
        for problem in filter(None, problems):
            one_line(problem)
        repr(file), file.footer.created_by, file.footer.key_value_metadata
    return READ_ALL if any(problems) else RIGHT


def verify(path: Path, folder: Path) -> str:
    result = [parquet_bloom.verify(path, data=data) for data in (False, True)]
    for report in result:
        for problem in report.problems:
            one_line(str(problem))
            assert str(path) in str(problem)
    return RIGHT if all(report.ok for report in result) else READ_ALL


def search(path: Path, folder: Path) -> str:
    return check_rows(path, Truth(path))


def embed(path: Path, folder: Path) -> str:
    """Embed filters; check that the new file has the same data and gives the right answers."""
    return _rewrite(path, folder, lambda output: parquet_bloom.embed(path, ["key", "row"], output=output))


def replace(path: Path, folder: Path) -> str:
    return _rewrite(path, folder, lambda output: parquet_bloom.embed(path, ["key"], output=output, replace=True))


def drop(path: Path, folder: Path) -> str:
    return _rewrite(path, folder, lambda output: parquet_bloom.drop(path, ["key"], output=output))


def _rewrite(path: Path, folder: Path, change: Callable[[Path], object]) -> str:
    before, output = path.read_bytes(), folder / "output.parquet"
    try:
        change(output)
    except ParquetBloomError:
        assert path.read_bytes() == before, "the file was changed"
        assert not output.exists(), "an output was left"
        raise
    assert path.read_bytes() == before, "the file was changed"
    after = output.read_bytes()
    retained = min(oracle.footer_start(before), 9000)  # pages and page indexes; filters after them may go
    assert after[:retained] == before[:retained], "data was changed"
    old, new = Truth(path), Truth(output)
    for name in COLUMNS:
        one, other = old.columns[name], new.columns[name]
        assert (one is None) == (other is None), f"{name} can be read in one of them only"
        assert one is None or one.equals(other), f"{name} holds something else"
    return check_rows(output, new, partitioning=None)


def index(path: Path, folder: Path) -> str:
    with LakeIndex.create(folder / "index", ["key", "other"], granularity="row_group") as lake:
        errors: list[ParquetBloomError] = []
        lake.append([path], on_error=errors.append)
        for error in errors:
            named(error, path)
        outcome = check_rows(path, Truth(path), index=lake)
        if errors:
            raise errors[0]
        return outcome


def zoned(path: Path, folder: Path) -> str:
    target = folder / "zones.parquet"
    zones.build(path, "key", target, rows_per_zone=16)
    with zones.open(target) as opened:
        return check_rows(path, Truth(path), zones=opened)


def advise(path: Path, folder: Path) -> str:
    report = parquet_bloom.advise(path)
    for line in str(report).splitlines():
        one_line(line)
    return RIGHT


QUESTIONS: dict[str, Question] = {
    "show": show,
    "verify": verify,
    "search": search,
    "embed": embed,
    "replace": replace,
    "drop": drop,
    "index": index,
    "zones": zoned,
    "advise": advise,
}


def ask(name: str, path: Path, folder: Path) -> str:
    """Ask one question of a file: an outcome. Anything else is an AssertionError, or whatever exception came."""
    return ask_question(QUESTIONS[name], path, folder)


def ask_question(question: Question, path: Path, folder: Path) -> str:
    """The outcome of a question."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return question(path, folder)
    except ParquetBloomError as error:
        named(error, path)
        return f"{REFUSED}: {type(error).__name__}: {error.problem}"
