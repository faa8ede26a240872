"""Embedding into a Delta table in a store while another writer commits between two requests, or until it is killed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from proxy import Proxy
from servers import Store
from support.writers import changing_tables as tables
from support.writers import delta_log

import parquet_bloom

Rows = Counter[Any]

_LOG = "_delta_log/{:020}.json"
_MORE = tables.rows(900, 5)
_PROGRAM = """
import json, sys, parquet_bloom
parquet_bloom.embed_table(sys.argv[1], ["id"], storage_options=json.loads(sys.argv[2]), threads=1)
"""


class Other(NamedTuple):
    """What another writer commits, given the live files of the table's folder, and what it does to the rows."""

    make: Callable[[DeltaField, str, list[dict[str, Any]]], list[dict[str, Any]]]
    changes: Callable[[Rows], Rows]


def _append(field: DeltaField, root: str, live: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sink = pa.BufferOutputStream()
    pq.write_table(_MORE.drop_columns(["p"]), sink)
    data = sink.getvalue().to_pybytes()
    field.store.put(field.bucket, f"{root}/other.parquet", data)
    return [delta_log.add("other.parquet", len(data), partitionValues={"p": None})]


def _delete(field: DeltaField, root: str, live: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [delta_log.remove(next(add["path"] for add in live if "p=x%252Fy" in add["path"]))]


OTHERS = (
    Other(_append, lambda before: before + Counter((i, s, None) for i, s, _ in tables.contents(_MORE))),
    Other(_delete, tables.kept(lambda row: row[2] != "x/y")),
)


class DeltaField:
    """Races on one store, each in a folder of its own, with all requests of the run through a proxy."""

    def __init__(self, store: Store, proxy: Proxy, folder: Path) -> None:
        self.store, self.proxy, self.bucket = store, proxy, store.create_bucket()
        root = Path(tables.make_delta(folder / "t", 1))
        self._objects = {f"{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*") if path.is_file()}
        self._before = tables.read_delta(str(root))
        self._names = itertools.count()
        calm = self._make()
        proxy.clear()
        parquet_bloom.embed_table(self._url(calm), ["id"], storage_options=self._proxied, threads=1)
        self.num_requests = proxy.arrived

    def play(self, number: int, after: bool, other: Other) -> None:
        """Have another writer commit before a request or after its answer; nothing may be lost, doubled or replaced."""
        root, came = self._make(), list[tuple[int, bytes]]()
        self.proxy.clear()
        self.proxy.at(number, lambda: came.append(self._commit(root, other)), after=after)
        report = parquet_bloom.embed_table(self._url(root), ["id"], storage_options=self._proxied, threads=1)
        self.proxy.settle()
        for version, content in came:
            assert self._read_log(root, version) == content, "another writer's commit was replaced"
        ours = report.new_version if report.changed else None
        assert ours not in [version for version, _ in came], "two have won"
        is_ours = [b"EMBED BLOOM FILTERS" in content for content in self._read_logs(root)]
        assert [version for version, found in enumerate(is_ours) if found] == [ours] * report.changed
        assert len(is_ours) == 1 + len(came) + report.changed
        self._check(root, other.changes(self._before) if came else self._before)

    def kill(self, number: int) -> bool:
        """Kill the process before a request; return whether there was one."""
        root, killed = self._make(), list[bool]()
        self.proxy.clear()
        running: list[subprocess.Popen[bytes]] = []

        def act() -> None:
            running[0].send_signal(signal.SIGKILL)
            killed.append(True)

        self.proxy.at(number, act)
        command = [sys.executable, "-c", _PROGRAM, self._url(root), json.dumps(self._proxied)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
        _, errors = running[0].communicate(timeout=300)
        self.proxy.settle()
        assert running[0].returncode == (-signal.SIGKILL if killed else 0), errors.decode()
        self._check(root, self._before)
        return bool(killed)

    @property
    def _proxied(self) -> dict[str, str]:
        return self.store.options(self.proxy.endpoint)

    def _url(self, root: str) -> str:
        return self.store.url(self.bucket, root)

    def _make(self) -> str:
        root = f"t{next(self._names)}"
        for key, data in self._objects.items():
            self.store.put(self.bucket, f"{root}/{key}", data)
        return root

    def _read_log(self, root: str, version: int) -> bytes | None:
        return self.store.get(self.bucket, f"{root}/{_LOG.format(version)}")

    def _read_logs(self, root: str) -> list[bytes]:
        logs = []
        while content := self._read_log(root, len(logs)):
            logs.append(content)
        return logs

    def _commit(self, root: str, other: Other) -> tuple[int, bytes]:
        """Commit as other writers do, by put-if-absent; return version and content."""
        from obstore.exceptions import AlreadyExistsError
        from obstore.store import from_url

        options: dict[str, Any] = dict(self.store.options())
        allowed: Any = {"allow_http": options.pop("allow_http")}
        store = from_url(self.store.url(self.bucket, root), config=options, client_options=allowed)
        while True:
            logs, live = self._read_logs(root), dict[str, dict[str, Any]]()
            for action in (json.loads(line) for content in logs for line in content.splitlines()):
                if "remove" in action:
                    live.pop(action["remove"]["path"])
                if "add" in action:
                    live[action["add"]["path"]] = action["add"]
            actions = other.make(self, root, [*live.values()])
            content = "".join(json.dumps(action) + "\n" for action in actions).encode()
            try:
                store.put(_LOG.format(len(logs)), content, mode="create")
            except AlreadyExistsError:
                continue
            return len(logs), content

    def _check(self, root: str, expected: Rows) -> None:
        """Check rows by two readers, and that a second run ends the work."""
        from deltalake import DeltaTable

        options: Mapping[str, Any] = self.store.storage_options
        table: Any = parquet_bloom.delta(self._url(root), storage_options=options)
        parquet_bloom.embed_table(table, ["id"])
        assert not parquet_bloom.embed_table(table, ["id"]).changed
        theirs = DeltaTable(self._url(root), storage_options={name: str(text) for name, text in options.items()})
        assert tables.contents(pa.table(theirs.scan())) == expected
        assert tables.contents(parquet_bloom.read_table(table, "id >= 0")) == expected
