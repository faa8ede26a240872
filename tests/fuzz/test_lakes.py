"""Indexes of a lake with damage in one of their files, and the service on one."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent))

from changes import changed_json
from fuzzing import Choices, as_folder, edited, folder, fuzz, one_line

from parquet_bloom import LakeIndex
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake.index_pruning import IndexPruner
from parquet_bloom.predicate.tree import Like
from parquet_bloom.serve.request_guards import HostGuard
from parquet_bloom.serve.server import build_app
from parquet_bloom.serve.service import Service
from parquet_bloom.serve.service_settings import Settings

FILES, GROUP = 3, 4
TAIL = struct.Struct("<IQ8s")
Units = set[tuple[str, int | None]]


def rows(number: int) -> pa.Table:
    """The rows of a file: one value that every row group has, the others once."""
    keys = [0 if row % GROUP == 0 else 1000 * number + row for row in range(6 * GROUP)]
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"v{key % 97}" for key in keys]})


@dataclass(frozen=True)
class Base:
    """An index.

    Attributes
    ----------
    files : {name: bytes} of its folder.
    truth : {column: {value: the (file, row group or None) that have it}}.
    """

    files: dict[str, bytes]
    truth: dict[str, dict[Any, Units]]


@functools.cache
def bases() -> list[Base]:
    """One of each layout, of files and of row groups; of two segments, and with a file removed."""
    location = folder() / "lake"
    location.mkdir()
    names = [str(location / f"{number}.parquet") for number in range(FILES)]
    for number, name in enumerate(names):
        pq.write_table(rows(number), name, row_group_size=GROUP)
    results = []
    for layout, granularity in (("postings", "row_group"), ("cuckoo", "row_group"), ("postings", "file")):
        at = folder() / f"index-{len(results)}"
        options: Any = {"layout": layout, "granularity": granularity, "expected_values": 100}
        with LakeIndex.create(at, ["k", "s"], **options) as index:
            index.append(names)
            if not results:
                index.remove(names[:1])
        truth: dict[str, dict[Any, Units]] = {"k": {}, "s": {}}
        for number, name in enumerate(names):
            for column, values in rows(number).to_pydict().items() if results or number else ():
                for row, value in enumerate(values):
                    unit = row // GROUP if granularity == "row_group" else None
                    truth[column].setdefault(value, set()).add((name, unit))
        files = {path.name: path.read_bytes() for path in sorted(at.iterdir()) if path.stat().st_size}
        results.append(Base(files, truth))
    return results


def changed_manifest(data: bytes, choices: Choices) -> bytes:
    """A manifest with another value, and a checksum that fits."""
    document = json.loads(data[:-18])
    if choices.below(8) == 0:
        for segment in document["segments"]:
            removed = choices.damage(base64.b64decode(segment["removed"]) or bytes(16))
            segment["removed"] = base64.b64encode(removed).decode()
        body = json.dumps(document).encode()
    else:
        body = changed_json(document, choices)
    return body + f"\n{hash_one(body):016x}\n".encode()


def changed_part(data: bytes, choices: Choices) -> bytes:
    """A part with another value in its footer, or other bytes before it, and checksums that fit."""
    length = TAIL.unpack(data[-TAIL.size :])[0]
    start = len(data) - TAIL.size - length
    body, footer = data[:start], json.loads(data[start : start + length])
    if choices.below(2):
        body = choices.damage(body)
        for section in footer.get("sections", {}).values():
            if isinstance(section, list) and len(section) == 3 and section[2] is not None:
                section[2] = hash_one(body[section[0] : section[0] + section[1]])
        document = json.dumps(footer).encode()
    else:
        document = changed_json(footer, choices)
    return body + document + TAIL.pack(len(document), hash_one(document), b"PBLAKE01")


def changed_table(data: bytes, choices: Choices) -> bytes:
    """A table of files with other bytes, or with another column, and a checksum that fits."""
    body = data[:-8]
    if choices.below(3) == 0:
        body = choices.damage(body)
    else:
        table = pa.ipc.open_file(pa.BufferReader(body)).read_all()
        sink = pa.BufferOutputStream()
        changed = changed_columns(table, choices)
        with pa.ipc.new_file(sink, changed.schema) as writer:
            writer.write_table(changed)
        body = sink.getvalue().to_pybytes()
    return body + hash_one(body).to_bytes(8, "little")


def changed_columns(table: pa.Table, choices: Choices) -> pa.Table:
    at, how = choices.below(table.num_columns), choices.below(5)
    if how == 0:
        return table.remove_column(at)
    if how == 1:
        return table.rename_columns([name if i != at else "x" for i, name in enumerate(table.schema.names)])
    field, values = table.schema.field(at), table.column(at).to_pylist()
    values[choices.below(len(values))] = None if how == 2 else choices.odd_number()
    target = field.type if how < 4 else choices.pick((pa.int8(), pa.float64(), pa.string(), pa.null(), pa.int64()))
    try:
        column = pa.chunked_array([pa.array(values).cast(target)])
    except (pa.ArrowException, OverflowError):
        column = pa.chunked_array([pa.array([None] * len(values), target)])
    return table.set_column(at, field.name, column)


def changed_files(files: dict[str, bytes], how: int, choices: Choices) -> dict[str, bytes]:
    """An index with one file changed: where `how` is below 4 as no checksum fits, else as they all do."""
    kinds: list[tuple[list[str], Callable[[bytes, Choices], bytes]]] = [
        (sorted(files), lambda data, choices: choices.damage(data)),
        ([max(name for name in files if name.startswith("manifest-"))], changed_manifest),
        ([name for name, content in files.items() if content.endswith(b"PBLAKE01")], changed_part),
        ([name for name, content in files.items() if content.startswith(b"ARROW1")], changed_table),
    ]
    names, change = kinds[0 if how < 4 else 1 if how == 4 else 2 if how < 7 else 3]
    name = choices.pick(names) if how != 4 else names[0]
    return files | {name: change(files[name], choices)}


def good_recipes() -> list[bytes]:
    return [bytes([base, how, 1, 2, 3, 4, 5, how, base]) for base in range(3) for how in range(8)] + [b""]


@fuzz(ParquetBloomError, recipes=good_recipes, examples=20)
def test_lake_index(data: bytes) -> None:
    """An index is opened, queried, checked, merged.

    Damage that no checksum is made to fit must not cost a row: what it may have hit is a candidate, or there is an
    error. Where checksums fit, as if a writer had meant it, there is an answer or an error.
    """
    choices = Choices(data)
    base, how = choices.pick(bases()), choices.below(8)
    files = changed_files(base.files, how, choices)
    last = choices.below(32)
    single = choices.below(5) if last % 2 else None  # a single value is looked up by a way of its own
    queries: dict[str, list[Any]] = {"k": [0, 1001, 2007, 5, 424242], "s": ["v0", "v37", "v96", "none"]}
    with as_folder(files) as location, LakeIndex.open(location, live=last == 1) as index:
        for column, values in queries.items():
            queried = values if single is None else values[single % len(values) :][:1]
            try:
                answers = index.lookup(column, queried)
            except ParquetBloomError as error:
                one_line(error)
                continue
            assert len(answers) == len(queried)
            for value, candidates in zip(queried, answers, strict=True):
                named = {candidate.path: candidate.row_groups for candidate in candidates}
                for path, unit in base.truth[column].get(value, ()) if how < 4 else ():
                    groups = named.get(path, ())
                    is_there = groups is None or (unit in groups if unit is not None else path in named)
                    assert is_there, f"{column} = {value!r}: {path}, row group {unit} is lost: {candidates}"
        if last == 2:
            index.stats()
        elif last in (3, 4):
            index.check()
        elif last == 5:
            index.compact()
        elif last == 6:
            index.append_batches([])


@functools.cache
def index_of_grams() -> dict[str, bytes]:
    """The files of an index of two segments, one of which has no text."""
    location, at = folder() / "texts", folder() / "index-of-grams"
    location.mkdir()
    for number in range(FILES):
        texts = [f"row {row} of file {number}" for row in range(6 * GROUP)] if number else [None] * GROUP
        pq.write_table(
            pa.table({"t": pa.array(texts, pa.string())}), location / f"{number}.parquet", row_group_size=GROUP
        )
    with LakeIndex.create(at, ["grams(t)", "grams(lower(t))"], granularity="row_group") as index:
        for number in range(FILES):
            index.append(location / f"{number}.parquet")
    return {path.name: path.read_bytes() for path in sorted(at.iterdir()) if path.stat().st_size}


def recipes_of_grams() -> list[bytes]:
    return [bytes([how, 1, 2, 3, 4, 5, how, last]) for how in range(8) for last in range(4)] + [b""]


@fuzz(ParquetBloomError, recipes=recipes_of_grams, examples=20)
def test_index_of_grams(data: bytes) -> None:
    """The same of pieces of text."""
    choices = Choices(data)
    how = choices.below(8)
    files = changed_files(index_of_grams(), how, choices)
    number, row, last = 1 + choices.below(FILES - 1), choices.below(6 * GROUP), choices.below(8)
    piece = f"row {row} of file {number}"
    with as_folder(files) as location, LakeIndex.open(location, live=False) as index:
        for function in ("", "lower"):
            pruner = IndexPruner(index.state, Like("t", f"%{piece}%", function))
            named = {Path(path).stem: found for path, found in pruner.live()} if pruner.useful else {}
            if how < 4 and named:
                found = named[str(number)]
                is_there = found.read and (found.row_groups is None or row // GROUP in found.row_groups)
                assert is_there, f"{function}: {piece} is lost: {found}"
        if last == 0:
            index.stats()
        elif last in (1, 2):
            index.check()
        elif last in (3, 4):
            index.compact()
        elif last == 5:
            index.append(folder() / "texts")


@functools.cache
def application() -> Any:
    location = folder() / "served"
    location.mkdir()
    for name, data in bases()[1].files.items():
        (location / name).write_bytes(data)
    service = Service(LakeIndex.open(location, live=False), Settings(read_only=True, max_values=50, max_body=4096))
    return HostGuard(build_app(service), "127.0.0.1", lambda error: None)


BODIES: list[dict[str, Any]] = [
    {"column": "k", "values": [1001, 0, 5.5, "7"], "timezone": "UTC"},
    {"column": "s", "values": ["v37", {"type": "string", "value": "v1"}]},
    {"column": "k", "values": [{"type": "int", "value": "12"}, {"type": "timestamp", "value": "2026-01-31T00:00:00Z"}]},
    {"column": "k", "values": [{"type": "decimal", "value": "1.5"}, {"type": "bytes", "value": "00ff"}, True]},
    {"column": "k", "values": [{"type": "uuid", "value": "00000000-0000-0000-0000-000000000000"}, {"type": "float"}]},
    {"files": ["/nowhere/a.parquet"], "skip_unreadable": True},
    {"files": None},
]
TEXTS = [json.dumps(body).encode() for body in BODIES]
QUERIES = [b"column=k&value=1001", b"column=s&value=v37&type=string", b"column=k&value=2026-01-31&type=date", b""]
HEADERS = st.sampled_from([b"content-length", b"content-encoding", b"origin", b"host"])
TYPES = [b"application/json", b"application/json; charset=utf-8", b"text/plain", b""]
PATHS = ["/lookup", "/append", "/remove", "/refresh", "/stats", "/health", "/openapi.json", "/", "/lookup/", "//lookup"]


@fuzz(
    path=st.sampled_from(PATHS[:1])
    | st.sampled_from(PATHS)
    | st.text(st.characters(max_codepoint=255)).map("/".__add__),
    method=st.sampled_from(("POST", "GET", "PUT", "HEAD", "DELETE")),
    query=st.just(b"") | st.sampled_from(QUERIES) | edited(lambda: QUERIES) | st.binary(max_size=40),
    body=st.sampled_from(TEXTS)
    | edited(lambda: TEXTS)
    | st.binary(max_size=40)
    | st.builds(lambda body, how: changed_json(body, Choices(how)), st.sampled_from(BODIES), st.binary(max_size=9)),
    kind=st.sampled_from(TYPES),
    header=st.none() | st.tuples(HEADERS, st.binary(max_size=12)),
    examples=20,
)
def test_requests(
    path: str, method: str, query: bytes, body: bytes, kind: bytes, header: tuple[bytes, bytes] | None
) -> None:
    """The answer to any request is JSON and never says that there is a bug; a value that the index holds is found."""
    headers = [(b"host", b"localhost"), *([header] if header else ()), *([(b"content-type", kind)] if kind else ())]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("latin-1"), "query_string": query, "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    sent: list[Any] = []
    waiting = [
        {"type": "http.request", "body": body[at : at + 1000], "more_body": at + 1000 < len(body)}
        for at in range(0, len(body) or 1, 1000)
    ]

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(application()(scope, receive, send), 20))
    assert sent, "there is no answer"
    status, answer = sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])
    assert status in (200, 307, 400, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429), (status, answer[:300])
    assert len(answer) < 1 << 20
    if method != "HEAD" and path != "/docs":
        response = json.loads(answer)
        if (method, path, status, body) == ("POST", "/lookup", 200, TEXTS[0]):
            assert response["results"][0]["candidates"], "a value that the index holds is not found"
