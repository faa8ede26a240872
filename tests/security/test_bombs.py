"""Small files and answers that mean to become large: what comes out is bounded by what was said before."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.oracle.oracle import varint
from support.servers.web_server import Page, WebServer

MIB = 1 << 20
BOMB = 384 * MIB
MOST = 300  # MiB that a process may take, with pyarrow in it; a bomb is of 384 and what it is read into

I32, I64, TEXT, LIST, STRUCT = 5, 6, 8, 9, 12
CODECS = {"snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4_raw": 7}


def thrift(*fields: tuple[int, int, Any]) -> bytes:
    """A struct of (id, type, value) in the compact protocol; of lists the value is (type, items)."""
    data, before = b"", 0
    for number, kind, value in fields:
        data += bytes([(number - before) << 4 | kind]) + item(kind, value)
        before = number
    return data + b"\0"


def item(kind: int, value: Any) -> bytes:
    if kind in (I32, I64):
        return varint(value << 1)
    if kind == TEXT:
        return varint(len(value)) + value
    if kind == LIST:
        of, items = value
        return bytes([len(items) << 4 | of]) + b"".join(item(of, one) for one in items)
    return bytes(value)


def page_of(data: bytes, declared: int, claimed: int, count: int) -> bytes:
    """A page of `count` values that claims to have so many bytes, and to become `declared` bytes."""
    levels = thrift((1, I32, count), (2, I32, 0), (3, I32, 3), (4, I32, 3))
    return thrift((1, I32, 0), (2, I32, declared), (3, I32, claimed), (5, STRUCT, levels)) + data


def column(path: Path, codec: int, chunk: bytes, unpacked: int, count: int, lacks: int = 0, by: bytes = b"x") -> Path:
    """A file of one column `id` (INT64, required) and one row group, of these pages, that is said to be shorter."""
    metadata = thrift(
        (1, I32, 2), (2, LIST, (I32, [0])), (3, LIST, (TEXT, [b"id"])), (4, I32, codec), (5, I64, count),
        (6, I64, unpacked), (7, I64, len(chunk) - lacks), (9, I64, 4),
    )  # fmt: skip
    group = thrift(
        (1, LIST, (STRUCT, [thrift((2, I64, 4), (3, STRUCT, metadata))])), (2, I64, unpacked), (3, I64, count)
    )
    schema = [thrift((4, TEXT, b"schema"), (5, I32, 1)), thrift((1, I32, 2), (3, I32, 0), (4, TEXT, b"id"))]
    footer = thrift(
        (1, I32, 1), (2, LIST, (STRUCT, schema)), (3, I64, count), (4, LIST, (STRUCT, [group])), (6, TEXT, by)
    )  # fmt: skip
    path.write_bytes(b"PAR1" + chunk + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


def parquet(path: Path, codec: str, packed: bytes, declared: int, count: int = 1) -> Path:
    """A file of one page, which says that it becomes `declared` bytes."""
    chunk = page_of(packed, declared, len(packed), count)
    return column(path, CODECS[codec], chunk, len(chunk) - len(packed) + declared, count)


def packed_zeros(codec: str) -> bytes:
    """Very many zeros."""
    if codec == "gzip":
        packer = zlib.compressobj(1, wbits=31)
        return b"".join([*(packer.compress(bytes(MIB)) for _ in range(BOMB // MIB)), packer.flush()])
    if codec == "lz4_raw":  # made by hand: a literal, and a copy of it that goes on and on
        return b"\x1f\0\x01\0" + b"\xff" * (BOMB // 255) + b"\0" + b"\x50" + bytes(5)
    if codec == "snappy":  # the same: copies of 64 bytes from one byte back
        return varint(BOMB) + b"\0\0" + b"\xfe\x01\0" * (BOMB // 64) + b"\0\0"
    return pa.Codec(codec).compress(bytes(BOMB), asbytes=True)


PROGRAM = """
import sys
import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
def tried(what):
    try:
        what()
        print("ok")
    except ParquetBloomError as error:
        print("refused", error)
distant = SubTreeFileSystem("/", LocalFileSystem()) if sys.argv[1] == "distant" else None
for path in sys.argv[2:]:
    tried(lambda: parquet_bloom.embed(path, columns=["id"], output=path + ".new", filesystem=distant))
    tried(lambda: parquet_bloom.read_table(path, "id = 7", filesystem=distant))
print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) // 1024)
"""


def tried(*paths: Path, where: str = "local") -> tuple[list[str], int]:
    """Return the outcome of embedding and reading each file, and the MiB that it took."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, where, *paths], capture_output=True, text=True, timeout=300)
    *output, peak = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    return output, int(peak)


@pytest.mark.long  # it packs and unpacks a few GiB
def test_pages_become_no_more_than_they_say(tmp_path: Path) -> None:
    codecs = [codec for codec in CODECS if codec in ("snappy", "gzip") or pa.Codec.is_available(codec)]
    files = [parquet(tmp_path / f"{codec}.parquet", codec, packed_zeros(codec), 8) for codec in codecs]
    files.append(parquet(tmp_path / "good.parquet", "gzip", gzip.compress(struct.pack("<3q", 7, 8, 9)), 24, 3))
    output, peak = tried(*files)
    assert output[-2:] == ["ok", "ok"]
    # A writer is strict, whatever a reader makes of the page's front.
    assert all(text.startswith("refused") for text in output[:-2:2]), output
    assert peak < MOST, output


@pytest.mark.parametrize("where", ["local", "distant"])
def test_pages_take_no_more_than_there_is(where: str, tmp_path: Path) -> None:
    """A page that claims 2 GiB of a file that has some bytes, in front of more or less."""
    huge, value = 2**31 - 60, struct.pack("<q", 7)
    files = []
    for mib in (0, 2, 9):  # in a column chunk that is read whole, and in one that is streamed
        count = mib * MIB // 8
        before = page_of(bytes(8 * count), 8 * count, 8 * count, count) if count else b""
        for declared in (8, huge):
            chunk = before + page_of(value, declared, huge, 1)
            files.append(column(tmp_path / f"{mib}-{declared}.parquet", 0, chunk, len(chunk), count + 1))
        chunk = before + page_of(value, 8, 8, 1)
        files.append(column(tmp_path / f"{mib}.parquet", 0, chunk, len(chunk), count + 1))
    declared, peak = tried(*files, where=where)
    for file, embedding, reading in zip(files, declared[::2], declared[1::2], strict=True):
        if "-" in file.name:
            assert embedding.startswith(f"refused {file}: row group 0, column 'id': cannot be read: "), declared
            assert reading.startswith(f"refused {file}: "), declared
        else:
            assert (embedding, reading) == ("ok", "ok"), declared
    streamed = [text for file, text in zip(files, declared[::2], strict=True) if file.name.startswith("9-")]
    assert all(" claims " in text for text in streamed), declared
    assert peak < MOST, declared


@pytest.mark.parametrize("where", ["local", "distant"])
def test_old_column_chunks_are_longer_than_they_say(where: str, tmp_path: Path) -> None:
    """Old parquet-mr did not count the header of a dictionary's page; pyarrow reads on in its files alone."""
    files = []
    for by in (b"parquet-mr version 1.2.8 (build x)", b"parquet-mr version 1.15.2 (build x)"):
        for mib in (1, 9):
            count = mib * MIB // 8
            values = b"".join(struct.pack("<q", number) for number in range(count))
            chunk = page_of(values, len(values), len(values), count)
            files.append(column(tmp_path / f"{len(files)}.parquet", 0, chunk, len(chunk), count, 20, by))
    output, peak = tried(*files, where=where)
    assert output[:4] == ["ok"] * 4
    assert all(text.startswith("refused") for text in output[4:]), output
    assert peak < MOST, output


LISTING = """<?xml version="1.0"?>
<!DOCTYPE l [<!ENTITY a0 "x">{entities}<!ENTITY file SYSTEM "file:///etc/passwd"><!ENTITY net SYSTEM "{url}/fetched">]>
<ListBucketResult><Name>b</Name><KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>
<Contents><Key>lake/&{entity};.parquet</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"x"</ETag>
<Size>9</Size><StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>"""
LISTS = """
import json, resource, sys
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.storage import resolve_filesystem, list_files
options = {"aws_endpoint": sys.argv[1], "aws_allow_http": "true", "aws_region": "x", "aws_skip_signature": "true",
           "aws_virtual_hosted_style_request": "false"}
try:
    said = list_files("s3://b/lake/", resolve_filesystem(None, options))
except ParquetBloomError as error:
    said = str(error)
print(json.dumps(said))
print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) // 1024)
"""


@pytest.mark.parametrize("entity", ["a9", *(pytest.param(name, marks=pytest.mark.long) for name in ("file", "net"))])
def test_a_store_s_answer_expands_nothing(entity: str) -> None:
    """Entities that double thirty times over, or lead to a file or another server."""
    pytest.importorskip("obstore")
    server = WebServer()
    try:
        entities = "".join(f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 10))
        text = LISTING.format(entities=entities, entity=entity, url=server.url)
        paths = ("/b?list-type=2&prefix=lake%2F", "/b?list-type=2&prefix=lake/", "/b/?list-type=2&prefix=lake%2F")
        more = [f"{location}&delimiter=%2F" for location in paths] + ["/b?delimiter=%2F&list-type=2&prefix=lake%2F"]
        server.pages = {location: Page(text.encode()) for location in (*paths, *more)}
        done = subprocess.run([sys.executable, "-c", LISTS, server.url], capture_output=True, text=True, timeout=300)
        output, peak = done.stdout.splitlines()
        assert done.returncode == 0, done.stderr
        assert any(location in server.pages for _, location, _ in server.requests), server.requests
        assert not any("fetched" in location for _, location, _ in server.requests)
        assert "root:" not in output
        assert len(json.loads(output)) < 2_000
        assert int(peak) < MOST
    finally:
        server.close()
