"""Formats of rows: tables, JSON, CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.cli.output.row_formats import Column, CsvRows, JsonRows, PrintedRows, lay_out, to_json
from parquet_bloom.errors import printable

COLUMNS = (
    Column("name", "name", folds=True),
    Column("number", "number", right=True),
    Column("usual", "usual", usual=lambda row: row["usual"] is None),
    Column("text", "text", folds=True),
)


def row(name: Any = "a", number: Any = 1, usual: Any = None, text: Any = "t") -> dict[str, Any]:
    return {"name": name, "number": number, "usual": usual, "text": text}


TEXTS = st.text(st.characters(exclude_categories=[]), max_size=20)  # lone surrogates too, as undecodable names have
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS


@given(VALUES)
def test_json_is_valid_and_exact(value):
    text = to_json({"key": value, "list": [value]})
    assert text.isprintable()
    if isinstance(value, float) and not math.isfinite(value):
        value = None
    # A pair of surrogates is one character to JSON, as it would be in a name that is decoded.
    expected = value if not isinstance(value, str) else json.loads(json.dumps(value))
    assert json.loads(text) == {"key": expected, "list": [expected]}


def written(kind: Any, rows: list[dict[str, Any]], facts: dict[str, Any] | None = None, **options: Any) -> str:
    """What a writer of some kind makes of rows."""
    pieces: list[str] = []
    created = kind(COLUMNS, pieces.append, **options)
    created.facts |= facts or {}
    created.begin()
    for each in rows:
        created.add(each)
    created.end()
    return "".join(pieces)


@given(st.lists(VALUES.map(lambda value: row(name=value, text=value)), max_size=4))
def test_documents_are_valid(rows):
    document = json.loads(written(JsonRows, rows, {"number": math.inf}, document=("test", "things")))
    assert list(document) == ["schema_version", "command", "things", "number"]
    assert (len(document["things"]), document["number"]) == (len(rows), None)


@given(st.lists(TEXTS.map(lambda text: row(name=text)), min_size=1, max_size=4), st.booleans())
def test_csv_gives_back_what_it_took(rows, of_lake):
    read = list(csv.DictReader(io.StringIO(written(CsvRows, rows, of_lake=of_lake), newline="")))
    assert [each["name"] for each in read] == [each["name"] for each in rows]


def test_csv_cells():
    cells = row(name=True, number=0.1 + 0.2, usual=None, text=["a", "b\x1b"])
    assert written(CsvRows, [cells], escape=True) == "name,number,usual,text\ntrue,0.30000000000000004,,a; b\\x1b\n"


def test_ndjson_keeps_only_its_columns():
    assert written(JsonRows, [row() | {"other": 1}]) == '{"name": "a", "number": 1, "usual": null, "text": "t"}\n'


@given(TEXTS)
def test_printable_is(text):
    shown = printable(text)
    assert shown.isprintable()
    assert text != shown or text.isprintable()


def test_a_table_is_aligned_by_cells():
    assert lay_out(COLUMNS, [row("数据", 10, "x"), row("e\u0301é", 5, None, None)]) == [
        "name  number  usual  text",
        "数据      10  x      t",
        "e\u0301é         5  -      -",
    ]
    assert lay_out(COLUMNS, []) == []


def test_a_table_fits_step_by_step():
    long = "a rather long text of several words"
    rows = [row("one name", 1, None, long), row("one name", 2, None, "short"), row("other", 3, None, "x" * 30)]
    assert lay_out(COLUMNS, rows)[:2] == lay_out(COLUMNS, rows, width=55)[:2]
    assert lay_out(COLUMNS, rows)[:2] == [
        "name      number  text",
        "one name       1  a rather long text of several words",
    ]
    assert lay_out(COLUMNS, rows, width=45) == [
        "number  text",
        "one name",
        "     1  a rather long text of several words",
        "     2  short",
        "other",
        "     3  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ]
    assert lay_out(COLUMNS, rows, width=28) == [
        "number  text",
        "one name",
        "     1  a rather long text of several",
        "        words",
        "     2  short",
        "other",
        "     3  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ]


@pytest.mark.parametrize("width", [5, 20, 40, 80])
@given(rows=st.lists(TEXTS.map(lambda text: row(name=text, text=text)), min_size=1, max_size=4))
def test_no_table_loses_a_character_or_cuts_a_word(width, rows):
    lines = lay_out(COLUMNS, rows, width=width)
    assert all(line.isprintable() for line in lines)
    for each in rows:
        for word in printable(each["text"]).split(" "):
            assert any(word in line for line in lines)


def test_records_have_one_header_and_are_never_wrapped():
    pieces: list[str] = []
    created = PrintedRows((Column("id", "id"), Column("url", "url")), pieces.append, of_lake=True)
    created.begin()
    created.add_all({"id": number, "url": f"/{'a b ' * 40}{number}"} for number in range(2500))
    created.add({"id": 123456789, "url": "/"})
    created.end()
    lines = "".join(pieces).splitlines()
    assert lines[0].split() == ["id", "url"]
    assert len(lines) == 2502
    assert lines[1] == f"0    /{'a b ' * 40}0"
    assert lines[1001] == f"1000  /{'a b ' * 40}1000"  # a column may get wider, and never narrower
    assert lines[2001] == f"2000       /{'a b ' * 40}2000"
    assert lines[2501] == "123456789  /"


def test_colors_do_not_shift_columns():
    columns = (Column("name", "name", style={"fg": "red"}), *COLUMNS[1:])
    (_, line) = lay_out(columns, [row("ab")], color=True)
    assert line == "\x1b[31mab\x1b[0m         1  t"


def test_a_table_is_written_at_the_end():
    pieces: list[str] = []
    created = PrintedRows(COLUMNS, pieces.append)
    created.begin()
    created.add(row())
    assert pieces == []
    created.end()
    assert "".join(pieces) == "name  number  text\na          1  t\n"
