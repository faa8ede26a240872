"""Indexes of grams lose no row that matches a pattern, and what is read through them are the rows that match.

Lakes of random texts, made and (where they are at hand) real ones, of one alphabet or all, in files that come, go, and
are indexed in steps. Patterns are asked of the index alone, by the units that it names, and of all ways to read rows;
which rows match is what DuckDB, polars and Python's `re` say of all rows. `hunting` says how to go on with it.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.corpus import FOLDER
from support.random_cases.hunting import seeds
from support.scale import scaled

import parquet_bloom
from parquet_bloom import LakeIndex
from parquet_bloom.errors import PredicateError, StorageError
from parquet_bloom.lake.index_pruning import IndexPruner
from parquet_bloom.predicate import tree
from parquet_bloom.predicate.tree import Node

SETTLED = 0.02  # seconds, in place of two: a local disk's times are finer than that
PATTERNS = 60  # of each lake
LETTERS = [
    "ab",
    "abAB",
    "aA%_\\",
    "abc\n \t/.",
    "iIİıßẞsſSkK\u212aσςΣ",
    "äÄéE\u0301øŁł",
    "漢字假名かな한국",
    "😀👍🏽🇩🇪\u200d👩",
    "аБвΑβγאב",
    "\x00\x01ab",
    "0123456789abcdef-",
]
WORDS = [
    "GET",
    "POST",
    "/api/v1/users",
    "error",
    "Error:",
    "timeout",
    "connection",
    "user=",
    "100%",
    "a_b",
    "C:\\tmp\\x",
]


@cache
def read_logs() -> list[str]:
    """Return lines of real logs, if there are any."""
    paths = sorted((FOLDER / "logs").glob("*.log"))
    return [line for path in paths for line in path.read_text("utf-8", "replace").splitlines()[::17]]


def draw_text(rng: random.Random, letters: str) -> str:
    if letters == "words":
        some = rng.choices(WORDS, k=rng.randint(1, 6))
        return " ".join([*some, f"{rng.randrange(2**32):x}", str(rng.randrange(10_000))])
    if letters == "logs":
        return rng.choice(read_logs())
    return "".join(rng.choices(letters, k=rng.choice([0, 1, 2, 3, 4, 6, 9, 15, 40])))


@dataclass
class Lake:
    """A folder of files, and an index of grams of it.

    Attributes
    ----------
    tables : rows of the files that are there, by their paths.
    groups : how many rows each of their row groups has.
    letters : what texts consist of.
    functions : of the column, whose grams are indexed.
    """

    rng: random.Random
    root: Path
    letters: list[str]
    tables: dict[Path, pa.Table] = field(default_factory=dict)
    groups: dict[Path, list[int]] = field(default_factory=dict)
    functions: tuple[str, ...] = ("",)
    count: int = 0
    story: list[str] = field(default_factory=list)

    @property
    def index(self) -> Path:
        return self.root.with_name("index")

    def write(self, path: Path | None = None) -> None:
        """Write a new file, or another one in a place."""
        rng, size = self.rng, self.rng.choice([1, 20, 60, 150])
        alphabets = rng.sample(self.letters, rng.randint(1, len(self.letters)))
        pool: list[str | None] = [draw_text(rng, rng.choice(alphabets)) for _ in range(rng.choice([3, 30, 200]))]
        texts = rng.choices([*pool, *([None] * rng.choice([0, 1, len(pool)]))], k=size)
        path = path or self.root / f"{self.count}.parquet"
        columns = {
            "row": pa.array(range(1000 * self.count, 1000 * self.count + size), pa.int64()),
            "t": pa.array(texts, rng.choice([pa.string(), pa.large_string()])),
            "n": pa.array(rng.choices([1, 2, 3, 4, None], k=size), pa.int64()),
        }
        self.count += 1
        self.tables[path] = pa.table({**columns, "t": columns["t"].cast(pa.string())})
        self._write(path, pa.table(columns))

    def _write(self, path: Path, table: pa.Table) -> None:
        rng = self.rng
        given: dict[str, Any] = {"use_dictionary": rng.choice([True, False, ["n"]])}
        if rng.random() < 0.15:
            encoding = rng.choice(["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
            given = {"use_dictionary": False, "column_encoding": {"t": encoding}}
        pq.write_table(
            table,
            path,
            row_group_size=rng.choice([7, 40, 1000]),
            dictionary_pagesize_limit=rng.choice([64, 1 << 20]),
            data_page_size=rng.choice([64, 1 << 20]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            **given,
        )
        metadata = pq.read_metadata(path)
        self.groups[path] = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        time.sleep(2 * SETTLED)

    def make_index(self) -> None:
        rng = self.rng
        granularity = rng.choice(["file", "row_group", "zone"])
        zone_rows = {"zone_rows": rng.choice([1, 5, 16, 64])} if granularity == "zone" else {}
        keys = rng.choice([["grams(t)"], ["grams(lower(t))"], ["grams(t)", "grams(lower(t))", "n"]])
        if "lower" in str(keys):
            self.functions = ("lower",) if len(keys) == 1 else ("", "lower")
        self.story += [granularity, str(zone_rows), str(keys)]
        with LakeIndex.create(self.index, keys, lake=self.root, granularity=granularity, **zone_rows) as index:
            index.append(memory_limit=rng.choice([1 << 16, 1 << 29]))

    def change(self) -> None:
        """Let something happen to the lake or the index."""
        rng, one = self.rng, self.rng.choice([*self.tables])
        happens = rng.choice(["append", "append", "append", "unindexed", "remove", "rewrite", "compact", "forget"])
        self.story.append(happens)
        if happens in ("append", "unindexed"):
            self.write()
        elif happens == "rewrite":
            self.write(one)
        elif happens == "remove" and len(self.tables) > 1:
            one.unlink()
            del self.tables[one]
        with LakeIndex.open(self.index) as index:
            if happens == "append" or (happens != "unindexed" and rng.random() < 0.5):
                index.append()
            if happens == "compact":
                index.compact(keep_seconds=0)
            elif happens == "forget":
                with suppress(StorageError):  # it was not in there
                    index.remove([str(one)])


def draw_lake(seed: int, folder: Path) -> Lake:
    rng = random.Random(f"grams {seed}")
    kinds = [*LETTERS, "words", *(["logs"] if read_logs() else [])]
    root = folder / str(seed) / "lake"
    root.mkdir(parents=True)
    lake = Lake(rng, root, rng.sample(kinds, rng.choice([1, 1, 2, 4])), story=[f"seed {seed}"])
    if rng.random() < 0.4:
        lake.letters = [rng.choice(["words", kinds[-1]])]
    for _ in range(rng.randint(1, 3)):
        lake.write()
    lake.make_index()
    for _ in range(rng.choice([0, 2, 4, 10])):
        lake.change()
    return lake


# ---------------------------------------------------------------------------------------------------------- patterns


@dataclass
class Condition:
    """A condition in the notations of several engines; None where one has no such, or means something else by it.

    Attributes
    ----------
    duck, values : for DuckDB, with its parameters.
    sql : for the package, where it can be written as text.
    python : of a text and a number, true, false or None.
    """

    node: Node
    duck: str
    values: list[Any]
    sql: str | None
    python: Callable[[str | None, int | None], bool | None] | None = None
    polars: pl.Expr | None = None
    arrow: pc.Expression | None = None


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def draw_piece(rng: random.Random, texts: list[str], function: str) -> str:
    """Draw a text that one of some contains, mostly."""
    text, choice = rng.choice(texts), rng.random()
    first, last = sorted(rng.choices(range(len(text) + 1), k=2))
    if choice < 0.6:
        last = min(last, first + rng.choice([1, 2, 3, 4, 8, 12, 30]))
    piece = text[first:last]
    if rng.random() < 0.15:
        at = rng.randint(0, len(piece))
        piece = piece[:at] + rng.choice(["a", "%", "_", "\\", "é", "😀", "x", piece]) + piece[at + rng.randrange(2) :]
    if rng.random() < 0.02:
        piece = max(texts, key=len) + "x"
    return piece.lower() if function and rng.random() < 0.9 else piece


def apply(function: str, test: Callable[[str], bool]) -> Callable[[str | None, int | None], bool | None]:
    return lambda text, _: None if text is None else test(text.lower() if function else text)


def draw_like(rng: random.Random, texts: list[str], function: str) -> Condition:
    parts: list[str] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        parts += [*rng.choices(["%", "_", ""], [6, 1, 3], k=1), draw_piece(rng, texts, function)]
    if rng.random() < 0.4:  # parts of one text, in order
        text = rng.choice(texts).lower() if function else rng.choice(texts)
        cuts = sorted(rng.choices(range(len(text) + 1), k=4))
        parts = ["%", text[cuts[0] : cuts[1]], rng.choice(["%", "_"]), text[cuts[2] : cuts[3]], "%"]
        if rng.random() < 0.5:
            parts[2] = "_" * (cuts[2] - cuts[1])
    parts += rng.choices(["%", "_", ""], [6, 1, 3], k=1)
    is_wild = [not number % 2 and bool(part) and set(part) <= set("%_") for number, part in enumerate(parts)]
    escape = rng.choice(["\\", "\\", "!", "a"])
    spelled, plain, expected = "", "", ""
    for part, wild in zip(parts, is_wild, strict=True):
        spelled += part if wild else "".join(escape + one if one in ("%", "_", escape) else one for one in part)
        plain += part if wild else re.sub(r"([%_\\])", r"\\\1", part)
        expected += part.replace("%", ".*").replace("_", ".") if wild else re.escape(part)
    subject, pattern = "lower(t)" if function else "t", re.compile(expected, re.DOTALL)
    field_ = pc.utf8_lower(pc.field("t")) if function else pc.field("t")
    arrow = pc.match_like(field_, plain) if "\\" not in plain else None  # Arrow's own reading of `\\` is another
    return Condition(
        tree.Like("t", plain, function),
        f"{subject} LIKE ? ESCAPE ?",
        [spelled, escape],
        f"{subject} LIKE {quote(spelled)} ESCAPE {quote(escape)}",
        apply(function, lambda text: pattern.fullmatch(text) is not None),
        None,
        arrow,
    )


def draw_containing(rng: random.Random, texts: list[str], function: str) -> Condition:
    piece, subject = draw_piece(rng, texts, function), "lower(t)" if function else "t"
    column = pl.col("t").str.to_lowercase() if function else pl.col("t")
    field_ = pc.utf8_lower(pc.field("t")) if function else pc.field("t")
    escaped = re.sub(r"([%_\\])", r"\\\1", piece)
    name, pattern, test, polars, arrow = rng.choice(
        [
            (
                "contains",
                f"%{escaped}%",
                str.__contains__,
                column.str.contains(piece, literal=True),
                pc.match_substring,
            ),
            ("starts_with", f"{escaped}%", str.startswith, column.str.starts_with(piece), pc.starts_with),
            ("ends_with", f"%{escaped}", str.endswith, column.str.ends_with(piece), pc.ends_with),
        ]
    )
    call = f"{name}({subject}, {{}})"
    return Condition(
        tree.Like("t", pattern, function),
        call.format("?"),
        [piece],
        call.format(quote(piece)),
        apply(function, lambda text: bool(test(text, piece))),
        polars,
        arrow(field_, piece),
    )


def draw_expression(rng: random.Random, texts: list[str], function: str, depth: int = 0) -> tuple[str, bool]:
    """Return a regular expression, and whether Python reads it as RE2 does."""
    choice = rng.random()
    if depth < 2 and choice < 0.45:
        some = [draw_expression(rng, texts, function, depth + 1) for _ in range(rng.randint(2, 3))]
        is_same = all(same for _, same in some)
        if choice < 0.2:
            return f"({rng.choice(['', '?:'])}{'|'.join(text for text, _ in some)})", is_same
        return rng.choice(["", ".*", ".?", "[^x]*", " *"]).join(text for text, _ in some), is_same
    piece = draw_piece(rng, texts, function)
    text = "".join(f"\\{one}" if one in r"\.+*?()|[]{}^$-/" else one for one in piece)
    last = text[-2:] if text[-2:-1] == "\\" else text[-1:]
    head = text[: len(text) - len(last)]
    if choice < 0.55 and last:
        return f"{head}{last}{rng.choice(['?', '*', '+', '{2}', '{1,3}', '{0,1}', '??', '+?'])}", True
    if choice < 0.6 and last and last[0] != "\\" and len(head) > 3:
        return f"{head}[{last}{rng.choice(['', 'x', '0-9', 'aeiou'])}]", True
    if choice < 0.65 and last:
        return f"({text}){rng.choice(['?', '*', '+', '{2}'])}", True
    if choice < 0.72:
        return f"(?i:{text})", False
    if choice < 0.76:
        return rng.choice([r"\d+", "[0-9a-f]{3,}", ".", "", r"[[:alpha:]]+", r"\w", "(?s:.)"]), False
    if choice < 0.8:
        return f"\\Q{piece}\\E" if "\\E" not in piece else text, False
    return text, True


def draw_matches(rng: random.Random, texts: list[str], function: str) -> Condition:
    text, is_same = draw_expression(rng, texts, function)
    if rng.random() < 0.2:
        text, is_same = rng.choice([f"^{text}", f"{text}$", f"^(?:{text})$", f"(?i){text}"]), False
    subject = "lower(t)" if function else "t"
    field_ = pc.utf8_lower(pc.field("t")) if function else pc.field("t")
    python = None
    if is_same:
        pattern = re.compile(text)
        python = apply(function, lambda value: pattern.search(value) is not None)
    return Condition(
        tree.Matches("t", text, function),
        # DuckDB takes the constant `(?:)$` for the empty text: the expression is not a constant.
        f"regexp_matches({subject}, ? || left(row::VARCHAR, 0))",
        [text],
        f"regexp_matches({subject}, {quote(text)})",
        python,
        None,
        pc.match_substring_regex(field_, text),
    )


def draw_other(rng: random.Random, texts: list[str]) -> Condition:
    number, text = rng.randint(1, 5), rng.choice(texts)
    field_ = pc.field("n")
    return rng.choice(
        [
            Condition(
                tree.Equal("n", number), "n = ?", [number], f"n = {number}",
                lambda _, n: None if n is None else n == number, pl.col("n") == number, field_ == number,
            ),
            Condition(
                tree.IsNull("n"), "n IS NULL", [], "n IS NULL",
                lambda _, n: n is None, pl.col("n").is_null(), field_.is_null(),
            ),
            Condition(
                tree.Equal("t", text), "t = ?", [text], f"t = {quote(text)}",
                lambda t, _: None if t is None else t == text, pl.col("t") == text, pc.field("t") == text,
            ),
        ]
    )  # fmt: skip


def negate(one: Condition) -> Condition:
    def python(text: str | None, number: int | None) -> bool | None:
        assert one.python is not None
        value = one.python(text, number)
        return None if value is None else not value

    return Condition(
        tree.negation(one.node),
        f"NOT ({one.duck})",
        one.values,
        one.sql and f"NOT ({one.sql})",
        one.python and python,
        None if one.polars is None else ~one.polars,
        None if one.arrow is None else ~one.arrow,
    )


def join(word: str, one: Condition, other: Condition) -> Condition:
    def python(text: str | None, number: int | None) -> bool | None:
        assert one.python is not None
        assert other.python is not None
        values = [one.python(text, number), other.python(text, number)]
        deciding = word == "OR"
        return deciding if deciding in values else None if None in values else not deciding

    return Condition(
        (tree.And if word == "AND" else tree.Or)((one.node, other.node)),
        f"({one.duck}) {word} ({other.duck})",
        [*one.values, *other.values],
        f"({one.sql}) {word} ({other.sql})" if one.sql and other.sql else None,
        python if one.python and other.python else None,
        _join(word, one.polars, other.polars),
        _join(word, one.arrow, other.arrow),
    )


def _join(word: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    return one & other if word == "AND" else one | other


def draw_condition(rng: random.Random, texts: list[str], functions: tuple[str, ...], depth: int = 0) -> Condition:
    choice = rng.random()
    if depth < 2 and choice < 0.06:
        return negate(draw_condition(rng, texts, functions, depth + 1))
    if depth < 2 and choice < 0.25:
        sides = [draw_condition(rng, texts, functions, depth + 1) for _ in range(2)]
        return join(rng.choice(["AND", "OR"]), *sides)
    if depth and choice < 0.4:
        return draw_other(rng, texts)
    draw = rng.choice([draw_like, draw_containing, draw_matches])
    return draw(rng, texts, rng.choice([*functions, *functions, "", "lower"]))


# ---------------------------------------------------------------------------------------------------------- answers


def rows_of_units(lake: Lake, pruner: IndexPruner) -> tuple[np.ndarray, int]:
    """Return the rows that the index leaves, and how many it rules out."""
    left: list[np.ndarray] = []
    total = 0
    for name, selection in pruner.live():
        path = Path(name)
        total += len(lake.tables[path])
        start, rows = 0, lake.tables[path]["row"].to_numpy()
        for number, count in enumerate(lake.groups[path]):
            if selection.read and (selection.row_groups is None or number in selection.row_groups):
                ranges = selection.rows.get(number, [(0, count)])
                left += [rows[start + first : start + last] for first, last in ranges]
            start += count
    together = np.concatenate(left) if left else np.empty(0, np.int64)
    return together, total - len(together)


def answers_of_engines(condition: Condition, rows: pa.Table) -> Iterator[tuple[str, set[int]]]:
    """Yield what engines say which rows match."""
    found = duckdb.execute(f"SELECT row FROM rows WHERE {condition.duck}", condition.values).fetchall()
    yield "duckdb", {row for (row,) in found}
    if condition.python is not None:
        columns = (rows[name].to_pylist() for name in ("row", "t", "n"))
        yield "python", {row for row, text, number in zip(*columns, strict=True) if condition.python(text, number)}
    if condition.polars is not None:
        yield "polars", set(pl.from_arrow(rows).filter(condition.polars)["row"].to_list())


def test_no_row_is_lost_and_none_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("identity", "metadata_cache"):
        monkeypatch.setattr(f"parquet_bloom.file.{module}.SETTLED_NS", round(SETTLED * 1e9))
    tally: Counter[str] = Counter()
    refusals: list[str] = []
    for seed in seeds(scaled(3)):
        lake = draw_lake(seed, tmp_path)
        rows = pa.concat_tables(lake.tables.values())
        texts = [text for text in rows["t"].to_pylist() if text is not None] or ["a"]
        with LakeIndex.open(lake.index) as index:
            for _ in range(PATTERNS):
                ask(lake, index, rows, draw_condition(lake.rng, texts, lake.functions), tally, refusals)
        if lake.rng.random() < 0.1:
            with LakeIndex.open(lake.index) as index:
                assert index.check(2).problems == [], lake.story
    print(tally, len(refusals))
    assert all("lower(t) of" in one and "is not the same in all engines" in one for one in refusals), refusals
    assert tally["ruled out"] > 0.1 * tally["rows"]  # else the index decided too little to show anything
    assert tally["read"] > 0.1 * tally["asked"]


def ask(
    lake: Lake,
    index: LakeIndex,
    rows: pa.Table,
    condition: Condition,
    tally: Counter[str],
    refusals: list[str],
) -> None:
    story = f"{lake.story} {lake.root}: {condition.duck} {condition.values} {condition.node!r}"
    try:
        answers = dict(answers_of_engines(condition, rows))
    except duckdb.Error:
        tally["not of RE2"] += 1
        return
    tally["asked"] += 1
    has_lower = "lower" in condition.duck
    if not has_lower:
        assert all(answer == answers["duckdb"] for answer in answers.values()), f"{story} {answers}"
    pruner = IndexPruner(index.state, condition.node)
    tally["useful"] += pruner.useful
    left, ruled_out = rows_of_units(lake, pruner) if pruner.useful else (rows["row"].to_numpy(), 0)
    assert not pruner.doubts, story
    for engine, expected in answers.items():
        lost = expected - set(left.tolist())
        assert not lost, f"{engine}: rows {lost} are lost: {story}"
    tally.update({"rows": len(rows), "ruled out": ruled_out, "matching": len(answers["duckdb"])})
    if lake.rng.random() < 0.3:
        where = (
            condition.sql if condition.sql and "\0" not in condition.sql and lake.rng.random() < 0.7 else condition.node
        )
        try:
            found = parquet_bloom.read_table(lake.root, where, index=index)["row"].to_pylist()
        except PredicateError as refusal:
            refusals.append(f"{refusal}: {story}")
            return
        tally["read"] += 1
        assert sorted(found) == sorted(answers["duckdb"]), story
    if condition.arrow is not None and lake.rng.random() < 0.2:
        tally["scanned"] += 1
        whole = rows.filter(condition.arrow)["row"].to_pylist()
        scanner = parquet_bloom.dataset(lake.root, index=index).scanner(filter=condition.arrow)
        assert sorted(scanner.to_table()["row"].to_pylist()) == sorted(whole), story
