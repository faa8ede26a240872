"""An Iceberg table in S3 with two catalogs of it, in which others act before any request."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import parquet_bloom
from parquet_bloom.tables.embed.embed_table import embed_table
from support.writers import changing_tables as tables

NAME = "db.events"


class IcebergStore:
    """A table in S3 and its catalogs.

    Attributes
    ----------
    s3 : the server; see `s3_server.S3`.
    settings : pyiceberg's, of the store.
    sql, rest, glue : settings of catalogs for `load_catalog`: the first two have the same tables, the last one its own.
    server : of the catalog `rest`.
    home : "sql", or "glue" after `move_to_glue`: the catalog that decides what the table is.
    """

    def __init__(self, s3: Any, folder: Path) -> None:
        from support.servers.iceberg_rest import IcebergRest

        self.s3, self._folder = s3, folder
        given = s3.storage_options
        self.settings = {
            "s3.endpoint": given["aws_endpoint"],
            "s3.access-key-id": given["aws_access_key_id"],
            "s3.secret-access-key": given["aws_secret_access_key"],
            "s3.region": given["aws_region"],
        }
        uri = f"sqlite:///{folder}/catalog.db?timeout=60"
        self.sql = {"type": "sql", "uri": uri, "warehouse": s3.url("warehouse"), **self.settings}
        given = {"glue.endpoint": s3.endpoint, "glue.region": "us-east-1", "glue.max-retries": 2}
        keys = {"glue.access-key-id": "testing", "glue.secret-access-key": "testing"}
        self.glue = {"type": "glue", "warehouse": s3.url("warehouse"), **given, **keys, **self.settings}
        self.server = IcebergRest(self.open("sql"), self.settings)
        self.rest = {"type": "rest", "uri": self.server.uri}
        self.home = "sql"
        self._saved: dict[str, bytes] = {}
        self._location = ""
        self._acting: list[threading.Event] = []

    def open(self, kind: str) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("catalog", **getattr(self, kind))

    def create(self) -> None:
        """Make the table, of five files in partitions."""
        from pyiceberg.transforms import IdentityTransform

        catalog = self.open("sql")
        catalog.create_namespace("db")
        table = catalog.create_table(NAME, tables.rows(0).schema)
        with table.update_spec() as update:
            update.add_field("p", IdentityTransform(), "p")
        table.append(tables.rows(0))
        self._saved = {key: self.s3.get(key) for key in self.keys()}
        self._location = table.metadata_location
        self._copy_database("catalog.db", "saved.db")

    def move_to_glue(self) -> None:
        """Have Glue hold the table, which `create` has made, from now on."""
        self.home = "glue"
        self.open("glue").create_namespace_if_not_exists("db")

    def restore(self) -> None:
        """Bring the table back to what `create` has made."""
        for key in self.keys():
            self.s3.delete(key)
        for key, data in self._saved.items():
            self.s3.put(key, data)
        if self.home == "sql":
            self._copy_database("saved.db", "catalog.db")
            return
        from pyiceberg.exceptions import NoSuchTableError

        catalog = self.open("glue")
        with suppress(NoSuchTableError):
            catalog.drop_table(NAME)
        catalog.register_table(NAME, self._location)

    def _copy_database(self, old: str, new: str) -> None:
        """Copy it as SQLite does: of a file that is changed in another way, open connections keep old pages."""
        with (
            closing(sqlite3.connect(self._folder / old)) as source,
            closing(sqlite3.connect(self._folder / new)) as copy,
        ):
            source.backup(copy)

    def keys(self) -> set[str]:
        pages = self.s3.client().get_paginator("list_objects_v2").paginate(Bucket=self.s3.bucket)
        found = {item["Key"] for page in pages for item in page.get("Contents", ())}
        return {key for key in found if not key.endswith("/")}  # pyarrow makes objects for folders

    def load(self) -> Any:
        return self.open(self.home).load_table(NAME)

    def read(self) -> Counter[Any]:
        """Return the rows by pyiceberg."""
        return tables.contents(self.load().scan().to_arrow())

    def count_replacing(self) -> int:
        """Return how many snapshots have exchanged files."""
        return sum(one.summary.operation.value == "replace" for one in self.load().snapshots())

    def check(self, expected: Counter[Any]) -> None:
        """Check rows by two readers, and that a second run ends the work."""
        assert self.read() == expected
        catalog = self.open(self.home)
        found = parquet_bloom.read_table(parquet_bloom.iceberg(NAME, catalog=catalog), "id >= 0")
        assert tables.contents(found) == expected
        embed_table(NAME, ["id"], catalog=catalog)
        assert self.read() == expected
        assert not embed_table(NAME, ["id"], catalog=catalog).changed

    def at_request(self, step: int, act: Callable[[], Any]) -> list[Any]:
        """Call a function before the request of a number, to the store or the catalog; return what it has returned."""
        numbers, lock, done = itertools.count(), threading.Lock(), []

        def count(request: Any) -> None:
            with lock:
                is_now = next(numbers) == step
                acting = threading.Event()
                self._acting += [acting] * is_now
            if is_now:
                try:
                    done.append(act())
                finally:
                    acting.set()

        self.s3.before(None, count, times=1_000_000)
        self.server.before = count
        return done

    def calm(self) -> None:
        """Leave the next requests alone, once what was called has ended: a client that waits too long sends again."""
        for acting in self._acting:
            assert acting.wait(300)
        self._acting.clear()
        self.s3._state.before.clear()
        self.server.before = self.server.after = lambda request: None
