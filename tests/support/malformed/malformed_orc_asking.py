"""Operations on a malformed ORC file; see `malformed_asking`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as pa_orc

import parquet_bloom
import parquet_bloom.orc as orc
from parquet_bloom.errors import ParquetBloomError
from support.malformed import malformed_orc
from support.malformed.malformed_asking import READ_ALL, RIGHT, Question, ask_question, named, one_line

TABLE = malformed_orc.good_table()
NEEDLES = list(malformed_orc.needles())


def read_metadata(path: Path, folder: Path) -> str:
    """Everything that there is of metadata."""
    doubted = False
    with orc.open(path) as file:
        stripes = range(len(file.stripes))
        for leaf in file.leaves:
            file.stripe_statistics(leaf)
            for stripe in stripes:
                for one in file.filters_of(leaf, stripe):
                    assert one is None or one.check([None]).all()
        for statistics in file.row_group_evidence(file.leaves, stripes).values():
            doubted |= any(one.doubt is not None for one in statistics)
    return READ_ALL if doubted else RIGHT


def verify(path: Path, folder: Path) -> str:
    report = orc.verify(path, data=True)
    for problem in report.problems:
        one_line(str(problem))
    return RIGHT if report.ok else READ_ALL


def search(path: Path, folder: Path) -> str:
    orc.open(path).close()  # pyarrow dies of some files that are refused
    try:
        truth: pa.Table | None = pa_orc.ORCFile(path).read()
        assert truth.schema.names
    except (pa.ArrowException, OSError, ValueError):
        truth = None
    refused, doubted = None, False
    for where, _ in NEEDLES:
        name, value = where.split(" = ")
        literal = value.strip("'") if name == "other" else int(value)
        expected = None
        if truth is not None and name in truth.schema.names:
            if truth[name].type != TABLE[name].type:
                continue  # its values are other ones now
            expected = pc.sum(pc.equal(truth[name], pa.scalar(literal)), min_count=0).as_py()
        try:
            report = parquet_bloom.prune(path, where)
            doubted |= bool(report.doubts)
            result = parquet_bloom.read_table(path, where, columns=[name]).num_rows
        except ParquetBloomError as error:
            named(error, path)
            refused = error
            continue
        assert result >= (1 if expected is None else expected), f"LOST {where}: {result} rows, pyarrow says {expected}"
    if refused is not None:
        raise refused
    return READ_ALL if doubted else RIGHT


def advise(path: Path, folder: Path) -> str:
    assert len(str(parquet_bloom.advise(path))) < 5_000 + 8 * path.stat().st_size  # it may have to name columns
    return RIGHT


QUESTIONS: dict[str, Question] = {"look": read_metadata, "verify": verify, "search": search, "advise": advise}


def ask(name: str, path: Path, folder: Path) -> str:
    return ask_question(QUESTIONS[name], path, folder)
