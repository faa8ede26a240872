"""Deletes, upserts and embedders of small tables, what others do to these at the same time, and what may come of both.

Run by `faulty`, `main` carries out one change in a process whose system calls are counted and cut.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.engines.iceberg_duckdb import open_duckdb
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.delta.delta_log import read_live_adds
from parquet_bloom.tables.embed.embed_table import embed_table
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

Rows = Counter[Any]

KINDS = ("delta with vectors", "delta", "iceberg 2", "iceberg 3")
NUM_ROWS = 200
OTHERS = ("append", "delete", "update", "overwrite", "compact", "z-order", "vacuum", "schema", "ours")


class Change(NamedTuple):
    """What one of ours does.

    Attributes
    ----------
    how : "delete", "where", "upsert" or "embed".
    mode : "hide" or "rewrite", of an upsert "update" or "keep".
    ids : the keys; "where" deletes from the first to the last of them.
    note : what rows of an upsert have in `s`.
    """

    how: str
    mode: str
    ids: tuple[int, ...]
    note: str = "ours"

    @property
    def name(self) -> str:
        return f"{self.how} {self.mode}"

    def run(self, given: Any) -> Any:
        """Carry it out on what is given as a table, and return the report."""
        if self.how == "embed":
            return embed_table(given, ["id", "s"], threads=1)
        if self.how == "upsert":
            rows = make_rows(self.ids, self.note)
            return parquet_bloom.upsert(given, rows, "id", when_matched=self.mode, threads=1)
        mode: Any = self.mode
        if self.how == "delete":
            return parquet_bloom.delete(given, list(self.ids), "id", mode=mode, threads=1)
        return parquet_bloom.delete(given, where=f"id BETWEEN {self.ids[0]} AND {self.ids[-1]}", mode=mode, threads=1)

    def changes(self, before: Rows) -> Rows:
        """Return the rows after it, given those before."""
        ids = {*self.ids}
        if self.how == "embed":
            return before
        if self.how == "where":
            return tables.kept(lambda row: not self.ids[0] <= row[0] <= self.ids[-1])(before)
        if self.how == "delete":
            return tables.kept(lambda row: row[0] not in ids)(before)
        if self.mode == "keep":
            there = {row[0] for row in before}
            return before + tables.contents(
                make_rows([number for number in self.ids if number not in there], self.note)
            )
        return tables.kept(lambda row: row[0] not in ids)(before) + tables.contents(make_rows(self.ids, self.note))


def make_rows(ids: Sequence[int], note: str) -> pa.Table:
    days = [tables.PARTITIONS[number % len(tables.PARTITIONS)] for number in ids]
    texts = [f"{note} {number}" for number in ids]
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "s": pa.array(texts, pa.string()), "p": pa.array(days, pa.string())}
    )


def draw_change(rng: random.Random, kind: str, hows: Sequence[str] = ("delete", "where", "upsert")) -> Change:
    how = rng.choice(hows)
    few = rng.random() < 0.7
    ids = sorted(rng.sample(range(NUM_ROWS + 40), rng.randint(1, 6) if few else 60))
    if how == "where":
        first = rng.randrange(NUM_ROWS)
        ids = [first, first + (rng.randint(0, 5) if few else 80)]
    if how == "embed":
        return Change(how, "", ())
    modes = ["update", "keep"] if how == "upsert" else ["hide"] if kind == "iceberg 3" else ["hide", "rewrite"]
    return Change(how, rng.choice(modes), tuple(ids))


# ------------------------------------------------------------------------------------------------------ the tables


def open_table(kind: str, folder: Path) -> Any:
    """Return what ours are given."""
    if kind.startswith("delta"):
        return str(folder / "table")
    return open_catalog(folder).load_table("db.events")


def open_catalog(folder: Path) -> Any:
    """Open a table's catalog anew, which does not wait long for a process that holds the database."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri, warehouse = f"sqlite:///{folder}/catalog.db?timeout=0.2", f"file://{folder}/warehouse"
    return SqlCatalog("catalog", uri=uri, warehouse=warehouse, init_catalog_tables="false")


def make_table(kind: str, folder: Path, rng: random.Random) -> None:
    """Write a table of a few files, with deleted rows and partitions now and then."""
    partitioned = rng.random() < 0.3
    if kind.startswith("delta"):
        options = {"configuration": {"delta.enableDeletionVectors": "true"}} if kind == KINDS[0] else {}
        tables.make_delta(folder / "table", NUM_ROWS // tables.ROWS, partitioned=partitioned, **options)
    else:
        tables.make_iceberg(folder, NUM_ROWS // tables.ROWS, partitioned=partitioned)
        if kind == "iceberg 3":
            rewrite_metadata(folder, lambda document: document.update({"format-version": 3, "next-row-id": 0}))
    if rng.random() < 0.5:
        parquet_bloom.delete(open_table(kind, folder), rng.sample(range(NUM_ROWS), 8), "id")


def rewrite_metadata(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Commit a changed metadata file of the Iceberg table, as pyiceberg does not for version 3 of the format."""
    with sqlite3.connect(folder / "catalog.db", timeout=0.2, isolation_level=None) as database:
        database.execute("BEGIN IMMEDIATE")
        ((location,),) = database.execute("SELECT metadata_location FROM iceberg_tables")
        path = Path(location.removeprefix("file://"))
        document = json.loads(path.read_text())
        change(document)
        document["metadata-log"] = [
            *document.get("metadata-log", []),
            {"timestamp-ms": document["last-updated-ms"], "metadata-file": location},
        ]
        number = int(path.name.split("-")[0]) + 1
        later = path.with_name(f"{number:05}-{random.randbytes(8).hex()}.metadata.json")
        later.write_text(json.dumps(document))
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", [f"file://{later}"])
        database.execute("COMMIT")
    database.close()


def read_by_their_library(kind: str, folder: Path) -> Rows:
    if kind.startswith("delta"):
        return tables.read_delta(str(folder / "table"))
    return tables.contents(open_table(kind, folder).scan().to_arrow())


def read(kind: str, folder: Path) -> Rows:
    """Return the rows, which are the same by this package, the format's own library, and DuckDB where it can be had."""
    rows = read_by_their_library(kind, folder)
    given = open_table(kind, folder)
    ours = parquet_bloom.delta(given) if kind.startswith("delta") else iceberg(given)
    assert tables.contents(parquet_bloom.dataset(ours).scan().to_arrow()) == rows, "readers disagree"
    duckdb = open_duckdb()
    # Of several vectors in one Puffin file DuckDB 1.5.5 applies a wrong one now and then.
    if duckdb is not None and kind != "iceberg 3":
        if kind.startswith("delta"):
            found = duckdb.read(given, "id", scan="delta_scan")
        else:
            found = duckdb.read(given.metadata_location.removeprefix("file://"), "id")
        assert found == sorted(row[0] for row in rows.elements()), f"DuckDB disagrees: {found}"
    return rows


def find_orphans(kind: str, folder: Path) -> set[str]:
    """Return the files of a table that none of its versions names."""
    if kind.startswith("delta"):
        root, used = folder / "table", set()
        for log in (root / "_delta_log").glob("*.json"):
            for line in log.read_text().splitlines():
                for action in json.loads(line).values():
                    used |= {unquote(action.get("path", "")), *_list_vectors(action)}
        found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        return {name for name in found - used if not name.startswith("_delta_log/0")}
    table = open_table(kind, folder)
    used = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    kept = [path for path in used if Path(path.removeprefix("file://")).exists()]
    snapshots = {
        each["manifest-list"]: each
        for path in kept
        for each in json.loads(Path(path.removeprefix("file://")).read_text()).get("snapshots", [])
    }
    for place in snapshots:
        used |= {place} | read_files_of_list(place, table.io)
    root = folder / "warehouse"
    return {str(path) for path in root.rglob("*") if path.is_file() and f"file://{path}" not in used}


def read_files_of_list(place: str, io: Any) -> set[str]:
    """Return the manifests of a list, and the files in them."""
    from pyiceberg.manifest import read_manifest_list

    manifests = list(read_manifest_list(io.new_input(place)))
    used = {manifest.manifest_path for manifest in manifests}
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
        used |= {entry.data_file.file_path for entry in entries}
    return used


def find_leftovers(folder: Path) -> list[Path]:
    """Return files that were not even finished."""
    return [path for path in folder.rglob(".*") if path.name.endswith((".parquet_bloom.tmp", ".parquet_bloom.old"))]


def _list_vectors(action: dict[str, Any]) -> list[str]:
    vector = action.get("deletionVector") or {}
    return [_name_vector(vector["pathOrInlineDv"])] if vector.get("storageType") == "u" else []


def _name_vector(text: str) -> str:
    from uuid import UUID

    from support.writers.delta_log import Z85

    data = b""
    for start in range(len(text) - 20, len(text), 5):
        number = 0
        for letter in text[start : start + 5]:
            number = number * 85 + Z85.index(letter)
        data += number.to_bytes(4, "big")
    folder = text[: len(text) - 20]
    return f"{folder}{'/' if folder else ''}deletion_vector_{UUID(bytes=data)}.bin"


# ------------------------------------------------------------------------------------------------------ the others


class Other(NamedTuple):
    """What another writer does: `run` takes what `open_for_others` returns, `changes` the rows before it."""

    name: str
    run: Callable[[Any], Any]
    changes: Callable[[Rows], Rows]


def open_for_others(kind: str, folder: Path) -> Any:
    """Return a handle of the table as it is now, which the other's library may go on using when it is stale."""
    if kind.startswith("delta"):
        from deltalake import DeltaTable

        return DeltaTable(str(folder / "table"))
    return folder if kind == "iceberg 3" else open_table(kind, folder)


def draw_other(rng: random.Random, kind: str, name: str, ours: Change, folder: Path) -> Other:
    """Draw what another writer does, to the same rows now and then."""
    mine = ours.ids or (7,)
    number = rng.choice(mine) if rng.random() < 0.6 else rng.randrange(NUM_ROWS)
    some = sorted({number, *rng.sample(range(NUM_ROWS + 40), 4)})
    if name == "ours":
        change = draw_change(rng, kind, ("delete", "where", "upsert", "embed"))._replace(note="theirs")
        return Other(f"our {change.name}", lambda handle: change.run(open_table(kind, folder)), change.changes)
    if kind == "iceberg 3":
        return _draw_for_version_3(name, some, number, folder)
    if kind == KINDS[0] and name == "vacuum":
        return Other(name, lambda table: vacuum(folder), tables.same)
    return (_draw_for_delta if kind.startswith("delta") else _draw_for_iceberg)(rng, name, some, number)


def vacuum(folder: Path) -> None:
    """Delete all files of a Delta table but those of its latest version, as deltalake's deletes vectors in use too."""
    root = folder / "table"
    used: set[str] = set()
    for add in read_live_adds(str(root), len([*(root / "_delta_log").glob("*.json")]) - 1):
        used |= {unquote(add["path"]), *_list_vectors(add)}
    for path in [*root.rglob("*")]:
        name = str(path.relative_to(root))
        if path.is_file() and not name.startswith("_delta_log") and name not in used:
            path.unlink()


def _draw_for_delta(rng: random.Random, name: str, some: list[int], number: int) -> Other:
    from deltalake import write_deltalake

    more = make_rows(some, "theirs")
    is_one = rng.random() < 0.5
    if name == "append":
        return Other(name, lambda table: write_deltalake(table, more, mode="append"), tables.added(more))
    if name == "delete":
        day = tables.PARTITIONS[1]
        if is_one:
            return Other(name, lambda table: table.delete(f"id = {number}"), tables.kept(lambda row: row[0] != number))
        return Other("delete p", lambda table: table.delete(f"p = '{day}'"), tables.kept(lambda row: row[2] != day))
    if name == "update" and is_one:
        return Other(
            name, lambda table: table.update(updates={"s": "'new'"}, predicate=f"id = {number}"), tables.renamed(number)
        )
    if name == "update":
        change = Change("upsert", "update", tuple(some), "theirs")

        def merge(table: Any) -> None:
            merger = table.merge(more, "source.id = target.id", source_alias="source", target_alias="target")
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

        return Other("merge", merge, change.changes)
    if name == "overwrite" and is_one:
        one = make_rows([number], "theirs")
        return Other(
            "overwrite some",
            lambda table: write_deltalake(table, one, mode="overwrite", predicate=f"id = {number}"),
            lambda before: tables.kept(lambda row: row[0] != number)(before) + tables.contents(one),
        )
    if name == "overwrite":
        return Other(
            name, lambda table: write_deltalake(table, more, mode="overwrite"), lambda before: tables.contents(more)
        )
    operations = {"compact": "compact", "z-order": "z-order", "vacuum": "vacuum", "schema": "add a column"}
    return Other(name, tables.DELTA_OPERATIONS[operations[name]].run, tables.same)


def _draw_for_iceberg(rng: random.Random, name: str, some: list[int], number: int) -> Other:
    more = make_rows(some, "theirs")
    is_one = rng.random() < 0.5
    if name == "append":
        return Other(name, lambda table: table.append(more), tables.added(more))
    if name == "delete":
        day = tables.PARTITIONS[1]
        if is_one:
            return Other(name, lambda table: table.delete(f"id == {number}"), tables.kept(lambda row: row[0] != number))
        return Other("delete p", lambda table: table.delete(f"p == '{day}'"), tables.kept(lambda row: row[2] != day))
    if name == "update":
        change = Change("upsert", "update", tuple(some), "theirs")
        return Other("upsert", lambda table: table.upsert(more, join_cols=["id"]), change.changes)
    if name == "overwrite" and is_one:
        one = make_rows([number], "theirs")
        return Other(
            "overwrite some",
            lambda table: table.overwrite(one, overwrite_filter=f"id == {number}"),
            lambda before: tables.kept(lambda row: row[0] != number)(before) + tables.contents(one),
        )
    if name == "overwrite":
        return Other(name, lambda table: table.overwrite(more), lambda before: tables.contents(more))
    if name == "compact":
        return Other(name, lambda table: table.overwrite(table.scan().to_arrow()), tables.same)
    if name == "z-order":
        return Other(name, lambda table: table.overwrite(table.scan().to_arrow().sort_by("s")), tables.same)
    operations = {"vacuum": "expire", "schema": "add a column"}
    return Other(name, tables.ICEBERG_OPERATIONS[operations[name]].run, tables.same)


def _draw_for_version_3(name: str, some: list[int], number: int, folder: Path) -> Other:
    """As pyiceberg does not write it, ours are the other writers, and the metadata is changed by hand."""

    def other(name: str, *changes: Change) -> Other:
        def run(handle: Any) -> None:
            for change in changes:
                change.run(open_table("iceberg 3", folder))

        def effect(before: Rows) -> Rows:
            for change in changes:
                before = change.changes(before)
            return before

        return Other(name, run, effect)

    if name == "append":
        later = tuple(range(900, 905))
        return other(name, Change("upsert", "keep", later, "theirs"))
    if name == "delete":
        return other(name, Change("delete", "hide", (number,)))
    if name == "update":
        return other(name, Change("upsert", "update", tuple(some), "theirs"))
    if name == "overwrite":
        everything = Change("where", "hide", (-1, 1_000_000))
        return other(name, everything, Change("upsert", "update", tuple(some), "theirs"))
    if name in ("compact", "z-order"):

        def compact(handle: Any) -> None:
            rows = open_table("iceberg 3", folder).scan().to_arrow().select(["id", "s", "p"])
            rows = rows if name == "compact" else rows.sort_by("s")
            parquet_bloom.upsert(open_table("iceberg 3", folder), rows, "id", threads=1)

        return Other(name, compact, tables.same)
    change = _expire if name == "vacuum" else _add_column
    return Other(name, lambda handle: rewrite_metadata(folder, change), tables.same)


def _expire(document: dict[str, Any]) -> None:
    gone = document["snapshots"].pop(0)["snapshot-id"]
    document["snapshot-log"] = [each for each in document["snapshot-log"] if each["snapshot-id"] != gone]


def _add_column(document: dict[str, Any]) -> None:
    old = next(each for each in document["schemas"] if each["schema-id"] == document["current-schema-id"])
    number = document["last-column-id"] = document["last-column-id"] + 1
    schema = document["current-schema-id"] = max(each["schema-id"] for each in document["schemas"]) + 1
    field = {"id": number, "name": "extra", "required": False, "type": "long"}
    document["schemas"].append(old | {"schema-id": schema, "fields": [*old["fields"], field]})


# ------------------------------------------------------------------------------------------------- ours in a process


def main(arguments: Sequence[str]) -> int:
    """Carry out a change: its kind of table, folder, and members as JSON."""
    kind, folder, members = arguments
    warnings.simplefilter("ignore")
    how, mode, ids, note = json.loads(members)
    try:
        given = open_table(kind, Path(folder))
    except Exception as error:  # pyiceberg's and the database's
        print(f"it cannot be opened: {error}".splitlines()[0], file=sys.stderr)
        return 1
    try:
        report = Change(how, mode, tuple(ids), note).run(given)
    except ParquetBloomError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"changed": report.changed, "attempts": report.attempts}))
    return 0


class TableStage:
    """A table on its stage: a copy of it for as many runs as are wanted, at one path, which its metadata has."""

    def __init__(self, kind: str, commands: Any, room: Path, rng: random.Random) -> None:
        self.kind, self._commands, self._room = kind, commands, room
        self.folder, self._template = room / "stage", room / "template"
        for path in (self.folder, self._template, room / "scratch"):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        make_table(kind, self.folder, rng)
        self._template.rmdir()
        shutil.copytree(self.folder, self._template)
        self.before = read(kind, self.folder)

    def fresh(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._template, self.folder)

    def run(self, change: Change, *rules: Any, **options: Any) -> Any:
        """Carry out a change in a process that is counted and cut."""
        under = [self.folder, self._room / "scratch"]
        arguments = [self.kind, os.fspath(self.folder), json.dumps(change)]
        return self._commands.run(arguments, under, rules, program="table_stage", **options)

    def read(self) -> Rows:
        return read(self.kind, self.folder)

    def orphans(self) -> set[str]:
        return find_orphans(self.kind, self.folder)
