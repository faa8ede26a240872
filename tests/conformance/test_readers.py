"""Files embedded into by us, read by Arrow C++, DuckDB, DataFusion and Spark.

A needle is found; with the filter's bits cleared its row vanishes, which shows that the engine used our filter. For
columns that an engine does not ask filters about, the row stays (so the table in `peers` is exact, too).
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import peers
from support.writers.haystack import Haystack

import parquet_bloom

COLUMNS = [name for name in peers.VALUES if name not in ("bool", "nothing", *peers.NESTED)] + ["st.a", "st.b.c"]
ENGINES = [pytest.param(name, marks=pytest.mark.spark if name == "spark" else ()) for name in peers.READERS]


@pytest.fixture(scope="module")
def haystacks(tmp_path_factory) -> dict[str, Haystack]:
    folder = tmp_path_factory.mktemp("haystacks")
    readable = [column for column in COLUMNS if column not in peers.UNREADABLE["spark"]]
    return {
        "all": Haystack(folder, "all", COLUMNS),
        "spark": Haystack(folder, "spark", readable),  # Spark refuses a file with one column that it cannot read
        "integers": Haystack(folder, "integers", ["d4", "d9", "d18"], store_decimal_as_integer=True),
        "int96": Haystack(folder, "int96", ["ts_ns"], use_deprecated_int96_timestamps=True),
    }


def ask_both(engine: str, haystack: Haystack, columns: list[str], ask_all: Any) -> set[str]:
    """Look for a needle in each column, with the filters and with their bits cleared: columns where it vanished."""
    needles = {column: haystack.needle(column) for column in columns}

    def counts(path: Path) -> list[int]:
        return ask_all(engine, [(path, column, value, arrow) for column, (value, _, arrow) in needles.items()])

    expected = {column: count for column, (_, count, _) in needles.items()}
    assert dict(zip(needles, counts(haystack.path), strict=True)) == expected
    remaining = dict(zip(needles, counts(haystack.cleared), strict=True))
    vanished = {column for column in columns if remaining[column] == 0}
    assert {column: count for column, count in remaining.items() if count} == {
        column: count for column, count in expected.items() if column not in vanished
    }
    return vanished


@pytest.mark.parametrize("engine", ENGINES)
def test_needles_are_found_and_vanish_with_the_bits(engine, haystacks, ask_all):
    haystack = haystacks["spark" if engine == "spark" else "all"]
    columns = [column for column in COLUMNS if column not in peers.UNREADABLE.get(engine, ())]
    assert ask_both(engine, haystack, columns, ask_all) == peers.CONSULTED[engine] & set(columns)


@pytest.mark.default
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "writer", [pytest.param(name, marks=pytest.mark.spark if name == "spark" else ()) for name in peers.FILES]
)
def test_files_of_all_writers_serve_all_readers(engine, writer, plain_file, tmp_path, ask_all):
    """Every writer's own layout (dictionaries, page indexes, footer) followed by our filters."""
    file = plain_file(f"{writer}-all")
    ours, cleared = tmp_path / "ours.parquet", tmp_path / "cleared.parquet"
    parquet_bloom.embed(file.path, ["i64", "str"], output=ours)
    peers.with_zeroed_filters(ours, cleared)
    questions = []
    for column in ("i64", "str"):
        values = file.values(1, column)
        value = next(v for v in values if v not in peers.VALUES[column].always)
        questions.append((column, value, file.array(1, column).type, values.count(value)))
    answers = ask_all(engine, [(ours, *question[:3]) for question in questions])
    assert answers == [question[3] for question in questions]
    assert ask_all(engine, [(cleared, *question[:3]) for question in questions]) == [0, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_decimals_stored_as_integers(engine, haystacks, ask_all):
    columns = ["d4", "d9", "d18"]
    assert ask_both(engine, haystacks["integers"], columns, ask_all) == set(columns)


@pytest.mark.parametrize("engine", ENGINES)
def test_int96_is_probed_only_by_arrow(engine, haystacks, ask_all):
    vanished = ask_both(engine, haystacks["int96"], ["ts_ns"], ask_all)
    assert vanished == ({"ts_ns"} if engine == "pyarrow" else set())


# ------------------------------------------------------------------------------------------------------------
# Zeros, NaN, float16
# ------------------------------------------------------------------------------------------------------------

FLOATS = {"f32": pa.float32(), "f64": pa.float64()}


@pytest.fixture(scope="module")
def zeros(tmp_path_factory) -> dict[str, Path]:
    """Columns that hold but one of the zeros, between -1 and 1: with pyarrow's filters, and with ours."""
    folder = tmp_path_factory.mktemp("zeros")
    columns = {}
    for name, arrow in FLOATS.items():
        columns[f"{name}_minus"] = pa.array([-1.0, -0.0, 1.0, math.nan], arrow)
        columns[f"{name}_plus"] = pa.array([-1.0, 0.0, 1.0, math.nan], arrow)
    table = pa.table(columns)
    paths = {name: folder / f"{name}.parquet" for name in ("plain", "pyarrow", "ours")}
    pq.write_table(table, paths["plain"], use_dictionary=False)
    bloom = {name: {"ndv": 100, "fpp": 0.0001} for name in columns}
    pq.write_table(table, paths["pyarrow"], use_dictionary=False, bloom_filter_options=bloom)
    parquet_bloom.embed(paths["plain"], dict.fromkeys(columns, 0.0001), output=paths["ours"])
    return paths


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "pyarrow"])
def test_both_zeros_are_found(engine, zeros, ask_all):
    questions = [
        (zeros["ours"], f"{name}_{sign}", value, arrow)
        for name, arrow in FLOATS.items()
        for sign in ("minus", "plus")
        for value in (0.0, -0.0)
    ]
    assert ask_all(engine, questions) == [1] * 8


@pytest.mark.parametrize("engine", ["datafusion", pytest.param("spark", marks=pytest.mark.spark)])
def test_engines_lose_a_zero_to_other_filters(engine, zeros, ask):
    """`embed` inserts both because of this; when this fails, the rule can go."""
    assert ask(engine, zeros["pyarrow"], "f64_minus", 0.0, pa.float64()) == 0


@pytest.mark.spark
def test_nan_is_found_by_spark(tmp_path, ask_all):
    """To Spark all NaN are one, and it asks filters for the plain one: `embed` has to insert that, too.

    Without statistics, as in Spark's own files with NaN; by pyarrow's, which leave NaN out, Spark loses NaN anyhow.
    """
    columns, types = {}, {}
    for arrow, name, patterns in (
        (pa.float32(), "f32", (0x7FC00000, 0xFFC00000, 0x7FC00001)),  # the second is what 0.0 / 0.0 is on x86
        (pa.float64(), "f64", (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001)),
    ):
        for number, bits in enumerate(patterns):
            width = arrow.bit_width // 8
            values = struct.pack("<2f" if width == 4 else "<2d", -1.0, 1.0) + bits.to_bytes(width, "little")
            columns[f"{name}_{number}"] = pa.Array.from_buffers(arrow, 3, [None, pa.py_buffer(values)])
            types[f"{name}_{number}"] = arrow
    plain, ours = tmp_path / "plain.parquet", tmp_path / "ours.parquet"
    pq.write_table(pa.table(columns), plain, use_dictionary=False, write_statistics=False)
    parquet_bloom.embed(plain, dict.fromkeys(columns, 0.0001), output=ours)
    for path in (plain, ours):
        answers = ask_all("spark", [(path, column, math.nan, arrow) for column, arrow in types.items()])
        assert dict(zip(columns, answers, strict=True)) == dict.fromkeys(columns, 1), path.name


def test_float16_is_found_by_duckdb(tmp_path, ask):
    """DuckDB reads float16 as float32 and hashes four bytes: it loses rows to a filter of two-byte hashes."""
    table = pa.table({"h": pa.array([-8.0, 1.5, 0.0, 8.0], pa.float16())})
    theirs, plain, ours = (tmp_path / f"{name}.parquet" for name in ("theirs", "plain", "ours"))
    pq.write_table(table, theirs, use_dictionary=False, bloom_filter_options={"h": {"ndv": 50, "fpp": 0.0001}})
    pq.write_table(table, plain, use_dictionary=False)
    parquet_bloom.embed(plain, {"h": 0.0001}, output=ours)
    assert ask("duckdb", theirs, "h", 1.5, pa.float32()) == 0
    for value in (1.5, 0.0, -0.0):
        assert ask("duckdb", ours, "h", value, pa.float32()) == 1
    assert ask("pyarrow", ours, "h", 1.5, pa.float16()) == 1


# ------------------------------------------------------------------------------------------------------------
# Arrow C++
# ------------------------------------------------------------------------------------------------------------


def test_arrow_reads_the_bits_that_we_wrote(haystacks, arrow_probe):
    path = haystacks["all"].path
    for (row_group, leaf), stored in oracle.filters(path).items():
        index = haystacks["all"].file.leaves[leaf].index
        assert arrow_probe.bitset(path, row_group, index) == stored.bitset


def test_arrow_finds_every_value(haystacks, arrow_probe):
    haystack = haystacks["all"]
    for (row_group, leaf), stored in oracle.filters(haystack.path).items():
        index = haystack.file.leaves[leaf].index
        theirs = arrow_probe.bitset(haystack.path, row_group, index)
        filled = oracle.OracleFilter(len(stored.bitset), theirs)
        assert all(filled.check(plain) for plain in haystack.file.plain(row_group, leaf))
        some = sorted(haystack.file.plain(row_group, leaf))[::40]
        assert {arrow_probe(haystack.path, row_group, index, plain) for plain in some} == {"maybe"}


def test_arrow_says_absent(haystacks, arrow_probe):
    haystack = haystacks["all"]
    index = haystack.file.leaves["i64"].index
    answers = [arrow_probe(haystack.path, 0, index, struct.pack("<q", 10**15 + i)) for i in range(200)]
    assert answers.count("absent") >= 185
