"""A slice of the compatibility matrix (`tools/compatibility.py` has the whole), and its page."""

from __future__ import annotations

import contextlib
import re

import duckdb
import pytest
from compat import columns, files, page
from compat.matrix import Cell, Matrix
from compat.readers import Ours, Worker, sql_question
from support.engines import sql_engines
from support.engines.frame_engines import PyArrow
from support.oracle import oracle

COLUMNS = ["i64", "f64", "d9", "str"]
DISTINCT = 11  # values a row group: one more than the texts that are always there


class InProcess:
    """An engine in this process, with the interface of `readers.Worker`, which has a separate process."""

    def __init__(self, engine, asked):
        self.engine, self.asked = engine, asked
        self.title = asked.version()
        self.release = tuple(int(part) for part in self.title.split()[1].split(".")[:2])

    def write(self, **given):
        self.asked.write(**given)

    def count(self, plain, questions):
        return self.asked.counts([sql_question(self.engine, self.release, plain, *item) for item in questions])


@pytest.fixture(scope="module")
def engines(request):
    """Engines by their names, created on first use."""
    created = {}

    def engine(name):
        if name not in created:
            created[name] = InProcess(name, make[name]())
        return created[name]

    make = {"pyarrow": PyArrow, "duckdb": sql_engines.DuckDB, "datafusion": sql_engines.DataFusion}
    make["spark"] = lambda: sql_engines.Spark(request.getfixturevalue("spark"))
    return engine


def measure(folder, engines, writer, readers, change=lambda written: written):
    matrix = Matrix()
    (part,) = columns.parts(writer, DISTINCT, COLUMNS).values()
    written = change(files.written(writer, engines(writer), folder, "common", part, quick=True))
    matrix.check(writer, written)
    for reader in readers:
        matrix.add(writer, written, reader)
    return matrix


def without_one_bit(written):
    """Our filters lose a bit of a value; where the filter of a column was whole, one of its values is denied."""
    for variant in written.variants:
        data = bytearray(variant.path.read_bytes())
        for stored in oracle.filters(variant.path).values():
            start = stored.offset + stored.header_size
            for position in range(start, start + len(stored.bitset)):
                data[position] &= data[position] - 1 if data[position] else 0
        variant.path.write_bytes(data)
    return written


def pairs():
    """Writers and readers; those with Spark take longest, so that most of them are for `-m long`."""
    for writer in ("pyarrow", "duckdb", "datafusion", "spark"):
        for names in (("duckdb", "datafusion"), ("spark",)):
            marks = [pytest.mark.spark] if "spark" in (writer, *names) else []
            if names == ("spark",) and writer != "spark":
                marks.append(pytest.mark.long)
            yield pytest.param(writer, names, marks=marks, id=f"{writer}-{'-'.join(names)}")


@pytest.mark.parametrize(("writer", "names"), list(pairs()))
def test_no_row_is_lost(writer, names, engines, tmp_path):
    matrix = measure(tmp_path, engines, writer, [Ours(), *map(engines, names)])
    cells = list(matrix.cells.values())
    assert page.failures(matrix) == []
    assert {(cell.filters, cell.length, cell.power) for cell in cells} >= {
        ("ours", True, True),
        ("ours", False, False),
        ("its own", True, True),
    }
    for cell in cells:
        assert cell.asked >= 50, cell
        assert cell.failed == cell.more == 0, cell
        assert cell.probed["int64"], cell  # a reader that uses no filter cannot lose a row by one
        assert cell.probed["string"], cell


def test_a_lost_row_is_seen(engines, tmp_path):
    """By readers that use a filter that lacks bits, and by the report of the run."""
    matrix = measure(tmp_path, engines, "pyarrow", [engines("duckdb"), Ours()], without_one_bit)
    assert all(cell.lost for cell in matrix.cells.values())
    assert len(page.failures(matrix)) >= len(matrix.cells)


def test_an_engine_answers_from_a_process_of_its_own(tmp_path):
    """As older releases do, whose environments have nothing else."""
    with contextlib.closing(Worker("duckdb", tmp_path / "engine")) as worker:
        assert worker.title == f"DuckDB {duckdb.__version__}"
        (part,) = columns.parts("duckdb", DISTINCT, ["i64"]).values()
        written = files.written("duckdb", worker, tmp_path / "files", "common", part, quick=True)
        values = {question.value for question in written.questions}
        assert values == {value for value in part.column("i64") if value is not None}
        assert all(worker.count(written.plain, [(written.plain, question) for question in written.questions]))
    answers = (tmp_path / "engine" / "engine.log").read_text()
    assert "Error" not in answers


def test_our_filters_carry_their_exact_length(engines, tmp_path):
    """Without one, parquet-java from 1.14.0 to 1.15.2 loses rows."""
    (part,) = columns.parts("pyarrow", DISTINCT, COLUMNS).values()
    source = columns.write_source(tmp_path / "source.parquet", part)
    for power in (True, False):
        stored = oracle.filters(files.embedded(source, tmp_path / "ours.parquet", power))
        assert len(stored) == columns.GROUPS * len(COLUMNS)
        assert all(item.length == item.header_size + len(item.bitset) for item in stored.values())


# ------------------------------------------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------------------------------------------


def test_the_page_was_made_by_the_program():
    created = page.read_table_text()
    heads = [line for line in created.splitlines() if line.startswith("### ")]
    assert heads == [f"### {title}" for title in page.HEADS]
    assert created.startswith("Run of 20")
    assert created.count("**0 rows lost**") == 2  # by our filters, and by our reading
    named = page.versions(created)
    for engine in ("parquet_bloom", "pyarrow", "DuckDB", "DataFusion", "Spark", "ClickHouse", "polars"):
        assert any(title.startswith(f"{engine} ") for title in named), engine
    assert sum(title.startswith("Spark ") for title in named) >= 4
    afar = created.split("### Rows lost with large filters over a network")[1].split("###")[0]
    assert re.search(r"parquet-java 1\.15\.2\) \| 0 / \d+ \| \*\*\d+ / \d+\*\* \|", afar)  # lost without lengths alone


def test_tables_put_into_a_page_come_back(tmp_path):
    copy = tmp_path / "page.md"
    copy.write_text(page.PAGE.read_text("utf-8"), "utf-8")
    cell = Cell("a 1", "b 2", "ours", True, True, asked=7, lost=2)
    cell.losing["date"] = 2
    matrix = Matrix(cells={("any",): cell}, order=["b 2"])
    text = page.tables(matrix, Matrix(), "2026-01-01")
    page.put(text, copy)
    assert page.read_table_text(copy) == text
    assert "**2 / 7**" in text
    assert "**2 rows lost**" in text
    assert page.failures(matrix)
    around = [part.split(mark) for part, mark in ((page.PAGE.read_text("utf-8"), page.BEGIN),)]
    assert copy.read_text("utf-8").startswith(around[0][0])
