"""Columns that stand in the names of folders, `day=2026-01-31/country=de/`, as Hive and Spark lay tables out.

A name and its value are one folder `name=value` below the folder that was given, or below what stands in front of the
first `*` of a pattern; of a file that was given itself, anywhere in its path. Of a name that occurs twice the first one
counts. Only names that all files of a listing have are columns. A column of the same name in a file itself is not
looked at: what the folder says goes, so that files can be ruled out unopened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import ParquetBloomError, PredicateError
from ...hashing.coerce import parse_date
from ...predicate import tree
from ...predicate.row_filter import row_mask
from ...predicate.tree import Node

_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INT64 = 1 << 63


class Partitions:
    """What the folders of some files say.

    Values are percent-decoded as UTF-8. All values of a name together decide its type: int64 if each is a whole number
    that is written in the one way (so `07` is none), dates if each is one (`2026-01-31`), else text.
    `__HIVE_DEFAULT_PARTITION__` is NULL and decides nothing.

    Parameters
    ----------
    files : paths. None of them is looked at.
    given : the files, folders and patterns that they were found by.
    """

    def __init__(self, files: Sequence[str], given: Any = ()):
        self._numbers = {folder: number for number, folder in enumerate(dict.fromkeys(map(_folder, files)))}
        roots = _roots(given) - {*files}
        pairs = [_pairs(_below(folder, roots)) for folder in self._numbers]
        names = [name for name in (pairs[0] if pairs else ()) if all(name in found for found in pairs)]
        self._folders = pa.table({name: _typed([found[name] for found in pairs]) for name in names})
        self._values = {name: self._folders[name].to_pylist() for name in names}

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def schema(self) -> pa.Schema:
        """The columns, outer folders' first."""
        return self._folders.schema

    def values(self, path: str) -> dict[str, Any]:
        """What the folders of a file say: ints, dates, texts and None by name."""
        if not self._values:
            return {}
        number = self._numbers[_folder(path)]
        return {name: values[number] for name, values in self._values.items()}

    def confirmed(self, files: Sequence[str], told: Mapping[str, Mapping[str, Any]]) -> Partitions:
        """Those columns of which folders say of every file what a table's books say: the same value of one type.

        Parameters
        ----------
        files : paths.
        told : {path: {column: value}} by the books.
        """

        def same(name: str, path: str) -> bool:
            ours, theirs = self.values(path)[name], told.get(path, {}).get(name, ...)
            return type(ours) is type(theirs) and ours == theirs

        kept = Partitions(())
        kept._numbers = self._numbers
        kept._folders = self._folders.select([n for n in self._values if all(same(n, path) for path in files)])
        kept._values = {name: self._values[name] for name in kept._folders.column_names}
        return kept

    def left_of(
        self, node: Node, timezone: str = "UTC", *, ignore_case: bool = False, strict: bool = True
    ) -> PartitionResiduals:
        """What of a predicate is left to be asked of each file's rows, where its folders have answered their part.

        Parameters
        ----------
        node, timezone : as for `prune`.
        ignore_case : match names whatever their case.
        strict : False to take what cannot be compared as if it were true, and note the doubt.

        Raises
        ------
        PredicateError
            A literal cannot be compared exactly with a partition column.
        """
        meant = self._meant(tree.columns(node), ignore_case)
        folders = pa.table({name: _of_any_type(self._folders[own]) for name, own in meant.items()})
        truths: dict[int, list[bool]] = {}
        doubts: list[str] = []
        for leaf in tree.leaves(node) if meant else ():
            if leaf.column not in meant:
                continue
            try:
                truth = pc.fill_null(row_mask(folders, leaf, timezone=timezone), False).to_pylist()
            except PredicateError as error:
                if strict:
                    raise
                truth = [True] * len(folders)
                doubts.append(f"'{leaf.column}': {error.problem}")
            truths[id(leaf)] = truth
        return PartitionResiduals(node, self._numbers, truths, folders, tuple(doubts))

    def _meant(self, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
        """{name: partition column} of those names in a predicate that stand for one."""
        found = {}
        for name in names:
            same = [own for own in self._values if own == name or (ignore_case and own.lower() == name.lower())]
            if len(same) == 1:
                found[name] = same[0]
        return found

    def spelled(self, name: str, ignore_case: bool) -> str:
        """The partition column that a name stands for, or the name itself."""
        return self._meant([name], ignore_case).get(name, name)

    def in_files(self, columns: Sequence[str] | None) -> list[str] | None:
        """The columns of a result that files have to give; None for all."""
        return None if columns is None else [name for name in columns if name not in self._values]

    def joined(self, table: pa.Table, path: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a file with the partition columns behind its own.

        Parameters
        ----------
        table : rows. If no column of the files is wanted it has one all the same, for their number.
        path : of the file; None for no rows, if only the schema is wanted.
        columns : wanted in the result; None for all.
        """
        values = {} if path is None else self.values(path)
        wanted = [field for field in self.schema if columns is None or field.name in columns]
        whole = table
        for field in wanted:
            value = pa.scalar(values.get(field.name), field.type)
            column = pa.repeat(value, table.num_rows) if value.is_valid else pa.nulls(table.num_rows, field.type)
            place = whole.schema.get_field_index(field.name)
            whole = whole.append_column(field, column) if place < 0 else whole.set_column(place, field, column)
        return whole if self.in_files(columns) != [] else whole.select([field.name for field in wanted])


class PartitionResiduals:
    """What of one predicate is left for each file; see `Partitions.left_of`.

    Attributes
    ----------
    doubts : what could not be compared with the folders' values.
    """

    def __init__(
        self,
        node: Node,
        numbers: Mapping[str, int],
        truths: Mapping[int, list[bool]],
        folders: pa.Table,
        doubts: tuple[str, ...],
    ):
        self.doubts = doubts
        self._node = node
        self._numbers = numbers
        self._truths = truths
        self._folders = folders
        self._known: dict[tuple[bool, ...], Node | bool] = {}  # thousands of folders have few
        self._told: dict[int, str] = {}

    @property
    def whole(self) -> bool:
        """Whether the whole predicate is left for every file."""
        return not self._truths

    def of(self, path: str) -> Node | bool:
        """A predicate over the columns of the file; True or False where its folders decide alone."""
        if self.whole:
            return self._node
        number = self._numbers[_folder(path)]
        answers = {key: truth[number] for key, truth in self._truths.items()}
        state = tuple(answers.values())
        if state not in self._known:  # of threads that come here together, all go on with the same one
            found = tree.find_residual(self._node, lambda leaf: answers.get(id(leaf), leaf))
            self._known.setdefault(state, found)
        return self._known[state]

    def told(self, path: str) -> str:
        """What the folders of a file say of the columns in the predicate, for people."""
        number = self._numbers[_folder(path)]
        if number not in self._told:
            values = self._folders.slice(number, 1).to_pylist()[0].items()
            said = ", ".join(f"{name} is {'null' if value is None else value}" for name, value in values)
            self._told[number] = f"its folder says {said}"
        return self._told[number]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _roots(given: Any) -> set[str]:
    """The folders that were given, and what stands in front of patterns."""
    several = [given] if isinstance(given, (str, bytes, os.PathLike)) else given
    roots = set()
    for path in map(os.fsdecode, several):
        plain = path if not any(sign in path for sign in "*?[") else _folder(re.split(r"[*?\[]", path, maxsplit=1)[0])
        roots.add(plain.rstrip("/"))
    return roots


def _below(folder: str, roots: set[str]) -> str:
    """What of a folder's path is below the nearest folder that was given; all of it, if none was."""
    above = folder
    while above not in roots:
        shorter = above.rpartition("/")[0]
        if shorter == above:
            return folder
        above = shorter
    return folder[len(above) :]


def _pairs(folder: str) -> dict[str, str | None]:
    """{name: text} of a folder and those above it."""
    found: dict[str, str | None] = {}
    for part in folder.split("/") if "=" in folder else ():
        name, sign, value = part.partition("=")
        try:
            name, text = unquote(name, errors="strict"), unquote(value, errors="strict")
            (name + text).encode()
        except UnicodeError:  # a name that is no UTF-8 has no text
            continue
        if name and sign:
            found.setdefault(name, None if value == _NULL else text)
    return found


def _of_any_type(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column to compare with: nulls alone compare with all literals."""
    return column if column.null_count < len(column) else pa.nulls(len(column))


def _typed(texts: list[str | None]) -> pa.Array:
    some = [text for text in dict.fromkeys(texts) if text is not None]
    if some and all(_WHOLE.fullmatch(text) and -_INT64 <= int(text) < _INT64 for text in some):
        return pa.array([None if text is None else int(text) for text in texts], pa.int64())
    if some and all(_DAY.fullmatch(text) and parse_date(text) for text in some):
        return pa.array([None if text is None else parse_date(text) for text in texts], pa.date32())
    return pa.array(texts, pa.string())


def partitions_of(files: Sequence[str], partitioning: str | None, given: Any) -> Partitions:
    """The columns that the folders of files give; `partitioning` as `prune` takes it, `given` as its `paths`."""
    if partitioning not in ("hive", None):
        raise ParquetBloomError(f"partitioning is 'hive' or None, not {partitioning!r}")
    return Partitions(files, given) if partitioning else Partitions(())
