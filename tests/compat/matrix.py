"""Queries for every value of every file by every reader, with and without filters: rows lost, and filter use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

from .columns import Question
from .files import Written

NEEDLES = 2  # of each column, for the filters that deny everything


@dataclass
class Cell:
    """Outcome of one reader for one kind of file.

    Attributes
    ----------
    writer, reader : their releases.
    filters, length, power : as in `files.Variant`.
    asked, lost, more : values queried, rows that the filters lost, and rows that came from nowhere.
    failed : values that the reader finds without filters, and fails at with them.
    losing : {type: rows lost}.
    probed : {type: whether a row vanished with filters that deny everything}.
    """

    writer: str
    reader: str
    filters: str
    length: bool
    power: bool
    asked: int = 0
    lost: int = 0
    more: int = 0
    failed: int = 0
    losing: Counter[str] = field(default_factory=Counter)
    probed: dict[str, bool] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.writer, self.reader, self.filters, self.length, self.power


@dataclass
class Matrix:
    """All cells, and what readers do not read at all.

    Attributes
    ----------
    tried, read : {(reader, type)} queried on files without filters, and answered at least once.
    checked : {file opened and verified by us: what was found, a line each}.
    notes : what could not be done, a line each.
    done : {(writer, file, reader)} that need not be run again.
    order : the releases, as the tables name them.
    far : {release: {kind of file: rows lost, values asked for}} of large filters over a network; see `far`.
    """

    cells: dict[tuple[Any, ...], Cell] = field(default_factory=dict)
    tried: set[tuple[str, str]] = field(default_factory=set)
    read: set[tuple[str, str]] = field(default_factory=set)
    checked: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    done: set[tuple[str, str, str]] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    far: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        document = {name: getattr(self, name) for name in ("checked", "notes", "order", "far")}
        sets = {name: sorted(getattr(self, name)) for name in ("tried", "read", "done")}
        return document | sets | {"cells": [dict(vars(cell)) for cell in self.cells.values()]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Matrix:
        cells = [Cell(**cell | {"losing": Counter(cell["losing"])}) for cell in document.pop("cells")]
        sets = {name: set(map(tuple, document.pop(name))) for name in ("tried", "read", "done")}
        return cls({cell.key: cell for cell in cells}, **document, **sets)

    def merge(self, other: Matrix) -> None:
        """Take in the cells of another."""
        self.tried |= other.tried
        self.read |= other.read
        for location, result in other.cells.items():
            cell = self.cells.setdefault(location, Cell(*location))
            for name in ("asked", "lost", "more", "failed"):
                setattr(cell, name, getattr(cell, name) + getattr(result, name))
            cell.losing += result.losing
            for title, probed in result.probed.items():
                cell.probed[title] = cell.probed.get(title, False) or probed

    def sorted(self) -> list[Cell]:
        """The cells in the order of their writers and readers."""

        def locate(title: str) -> int:
            return self.order.index(title) if title in self.order else -1

        return sorted(self.cells.values(), key=lambda cell: (locate(cell.writer), locate(cell.reader)))

    @property
    def unread(self) -> set[tuple[str, str]]:
        """{(reader, type)} that a reader fails at in each file without filters."""
        return self.tried - self.read

    def add(self, title: str, written: Written, reader: Any) -> None:
        """Ask a reader for every value of a writer's file; `title` is the writer's release."""
        questions = [
            item for item in written.questions if item.title != "list element" or reader.engine == "parquet_bloom"
        ]
        before = dict(
            zip(questions, reader.count(written.plain, [(written.plain, item) for item in questions]), strict=True)
        )
        for item, rows in before.items():
            self.tried.add((reader.title, item.title))
            if rows is not None:
                self.read.add((reader.title, item.title))
        stored = [item for item in questions if before[item]]
        for variant in written.variants:
            filtered = [item for item in stored if item.column in variant.filtered]
            location = (title, reader.title, variant.filters, variant.length, variant.power)
            cell = self.cells.setdefault(location, Cell(*location))
            count = reader.count(written.plain, [(variant.path, item) for item in filtered])
            for item, rows in zip(filtered, count, strict=True):
                _compare(cell, item, before[item] or 0, rows)
            needles = list(_needles(filtered))
            remaining = reader.count(written.plain, [(variant.planted, item) for item in needles])
            for item, rows in zip(needles, remaining, strict=True):
                vanished = rows is not None and rows < (before[item] or 0)
                cell.probed[item.title] = cell.probed.get(item.title, False) or vanished

    def check(self, title: str, written: Written) -> None:
        """Open and verify each file of a writer: filters of any writer must fit their columns."""
        for variant in written.variants:
            self.checked[f"{title}, {variant.path.name}"] = problems(variant.path)

    @property
    def problems(self) -> list[str]:
        """Problems that our `verify` reports for the files."""
        return [f"{name}: {problem}" for name, match in self.checked.items() for problem in match]


def _compare(cell: Cell, item: Question, before: int, rows: int | None) -> None:
    cell.asked += 1
    if rows is None:
        cell.failed += 1
    elif rows < before:
        cell.lost += before - rows
        cell.losing[item.title] += before - rows
    else:
        cell.more += rows - before


def _needles(questions: Iterable[Question]) -> Iterator[Question]:
    """A few values of each column that no statistics deny and every reader takes."""
    taken: Counter[str] = Counter()
    for item in questions:
        if item.drawn and taken[item.column] < NEEDLES:
            taken[item.column] += 1
            yield item


def problems(path: Path) -> list[str]:
    """Return our objections to a file's filters."""
    try:
        with parquet_bloom.open(path) as file:
            doubts = [str(chunk.problem) for chunk in file.chunks() if chunk.problem]
        report = parquet_bloom.verify(path, data=True)
    except ParquetBloomError as error:
        return [str(error)]
    return doubts + [f"{chunk.row_group}, {chunk.column}: {chunk.problem}" for chunk in report.problems]
