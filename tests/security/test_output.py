"""Names and values that attack readers of the output: a real parser reads each output, and nothing gets out."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.processes.on_a_terminal import on_terminal
from support.report_pages import all_texts, read_report, without_report

import parquet_bloom
from parquet_bloom.cli import tool
from parquet_bloom.errors import ParquetBloomError, printable
from parquet_bloom.util import messages

pytestmark = pytest.mark.default

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</style></script></svg><b>&amp;&#0;",
    "]]><!--<![CDATA[",
    "\x1b[31mred\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link",
    "\x9b31m\x90\x9c\x85",
    "\u202egnp.exe\u2066\u200b\ufeff",
    "a\r\nerror: forged\n\x0b\x0c\x1c\x85\u2028\u2029",
    "[bold red]x[/] [link=http://evil]y[/link] :boom:",
    "=cmd|' /C calc'!A0,\t\"x\"",
    "\x00\x01\x08\x7f" * 3,
    "%s %(name)s {0} {x} $HOME `id`",
]
FILES = [text.replace("/", "\u2215").replace("\0", "") for text in HOSTILE] + [os.fsdecode(b"\xff\xfe\x80 no utf-8")]
SAFE = str.isprintable


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.values = ""
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += "\n".join(value or "" for _, value in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def run(*arguments: Any) -> tuple[int, bytes, str]:
    result = CliRunner().invoke(tool, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    stderr = result.stderr_bytes.decode("utf-8", "surrogateescape")
    assert "a bug" not in stderr, stderr
    assert all(character == "\n" or SAFE(character) for character in stderr), stderr
    assert not any(line.startswith("error: forged") for line in stderr.splitlines())
    return result.exit_code, result.stdout_bytes, stderr


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each name; each with a column for each text, whose values are that text."""
    folder = tmp_path_factory.mktemp("hostile") / "lake"
    folder.mkdir()
    table = pa.table({"id": [0, 1], **{name: [name, "x"] for name in HOSTILE if "\0" not in name}})
    table = table.append_column("text", pa.array([HOSTILE[-2], HOSTILE[10]]))
    for name in FILES:
        parquet_bloom.write_table(table, folder / f"{name}.parquet", ["id", *table.column_names[1:3]])
    (folder.parent / "bad").mkdir()
    for name in FILES:
        (folder.parent / "bad" / f"{name}.parquet").write_bytes(b"PAR1 no Parquet")
    return folder


def paths(lake: Path) -> list[str]:
    return sorted(str(lake / f"{name}.parquet") for name in FILES)


COMMANDS = [
    ("show", "{lake}"),
    ("verify", "{lake}"),
    ("advise", "{lake}"),
    ("embed", "{lake}", "--column", "text", "--dry-run"),
    ("drop", "{lake}", "--dry-run"),
    ("prune", "{lake}", "--where", "id = 1"),
    ("find", "{lake}", "--where", "id = 1"),
]


@pytest.mark.ci
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_format_is_read_back(lake: Path, command: tuple[str, ...]) -> None:
    arguments = [part.format(lake=lake) for part in command]
    _, out, _ = run(*arguments, "--json")
    assert all(SAFE(character) or character == "\n" for character in out.decode())
    document = json.loads(out)
    rows = next(value for value in document.values() if isinstance(value, list) and value)
    _, out, _ = run(*arguments, "--format", "ndjson")
    assert [json.loads(line) for line in out.decode().split("\n")[:-1]] == rows or command[0] in ("verify",)
    _, out, _ = run(*arguments, "--format", "csv")
    text = out.decode("utf-8", "surrogateescape")
    table = [*csv.reader(io.StringIO(text, newline=""), strict=True)]
    assert {len(row) for row in table} == {len(table[0])}
    _, out, _ = run(*arguments)
    assert all(SAFE(character) or character == "\n" for character in out.decode())
    if "file" in rows[0]:
        assert sorted({row["file"] for row in rows}) == paths(lake)
        position = table[0].index("file")
        assert sorted({row[position] for row in table[1:]}) == paths(lake)


def test_values_are_read_back(lake: Path) -> None:
    path = paths(lake)[0]
    expected = pq.ParquetFile(path).read().to_pylist()
    arguments = ("find", path, "--where", "id IN (0, 1)")
    assert json.loads(run(*arguments, "--json")[1])["rows"] == expected
    rows = [*csv.reader(io.StringIO(run(*arguments, "--format", "csv")[1].decode(), newline=""), strict=True)]
    assert rows[0] == [*expected[0]]
    assert rows[1:] == [[str(value) for value in row.values()] for row in expected]
    out = run(*arguments)[1].decode()
    assert all(SAFE(character) or character == "\n" for character in out)


def test_a_predicate_is_shown_and_not_obeyed(lake: Path, tmp_path: Path) -> None:
    for text in HOSTILE:
        if "\0" in text:
            continue
        where = "text = '" + text.replace("'", "''") + "'"
        document = json.loads(run("prune", lake, "--where", where, "--json")[1])
        assert printable(text.replace("'", "''")) in printable(document["where"]), document["where"]
        run("prune", lake, "--where", where)
        run("prune", lake, "--where", f"{where} AND nothing ===")
        run("show", lake / text.replace("/", ""), "--column", text)


def test_pages_hold_texts_as_texts(lake: Path, tmp_path: Path) -> None:
    frame = without_report(parquet_bloom.prune(lake, "id = 1").to_html())
    assert "img" not in Page(frame).tags
    for where in ("id = 1", f"text = '{HOSTILE[0]}' or \"{HOSTILE[2]}\" = '{HOSTILE[3]}'"):
        report = parquet_bloom.prune(lake, where)
        page = report.to_html(check=True)
        assert without_report(page) == frame
        assert all(SAFE(character) or character == "\n" for text in all_texts(read_report(page)) for character in text)
        snippet = Page(report._repr_html_())
        assert snippet.tags.isdisjoint({"script", "img", "a", "iframe"})
        assert not any(name.startswith("on") for name in snippet.attributes)
    advice = parquet_bloom.advise(lake).to_html()
    assert without_report(advice) == frame
    assert all(SAFE(character) or character == "\n" for text in all_texts(read_report(advice)) for character in text)
    for command in (("prune", lake, "--where", "id = 1"), ("advise", lake)):
        run(*command, "--html", tmp_path / "page.html")
        assert without_report((tmp_path / "page.html").read_text("utf-8")) == frame


def test_errors_say_names_on_one_line(lake: Path) -> None:
    code, _, stderr = run("show", lake.parent / "bad")
    assert code == 2
    assert len([line for line in stderr.split("\n") if line.startswith("error: ")]) == len(FILES)
    errors = json.loads(run("show", lake.parent / "bad", "--json")[1])["errors"]
    assert sorted(error["file"] for error in errors) == sorted(
        str(lake.parent / "bad" / f"{name}.parquet") for name in FILES
    )
    for name in FILES:
        text = str(ParquetBloomError("x", path=f"{name}\n", column=name))
        assert SAFE(text)


@pytest.mark.ci
def test_a_terminal_gets_no_control_characters_but_our_own(lake: Path) -> None:
    find = ["find", str(lake), "--where", "id = 1"]
    for arguments in (find, [*find, "--format", "csv"], ["show", str(lake.parent / "bad"), "--json"]):
        output = on_terminal(*arguments, patience=0.0)
        for forbidden in ("\x1b[31mred", "\x1b]", "\x9b", "\x90", "\x07", "\u202e", "\x08", "\x0b", "\x00"):
            assert forbidden not in output, (arguments, forbidden)


def test_a_log_s_record_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    log = messages.logger("parquet_bloom.test")
    assert messages.logger("parquet_bloom.test") is log
    with caplog.at_level(logging.INFO, "parquet_bloom.test"):
        for text in HOSTILE:
            log.warning("%s: %s", text, ValueError(text))
    assert len(caplog.messages) == len(HOSTILE)
    assert all(map(SAFE, caplog.messages))
    for name in ("parquet_bloom.file", "parquet_bloom.storage", "parquet_bloom.spark"):
        if name in logging.root.manager.loggerDict:
            assert logging.getLogger(name).filters
    assert "parquet_bloom.util.messages" in sys.modules


def test_nothing_warns_with_names_of_files(lake: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parquet_bloom.read_table(lake, "id = 1")
