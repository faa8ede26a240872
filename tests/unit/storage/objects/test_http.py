"""Files on web servers: with ranges or without, with etags that may be relied on or none."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers.web_server import Page, WebServer

import parquet_bloom
from parquet_bloom import storage
from parquet_bloom.errors import ConcurrentChangeError, StorageError, TruncatedFileError
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.storage.objects.object_source import TAIL_BYTES, ObjectSource

DATA = np.random.default_rng(5).bytes(200_000)
THEN = "Fri, 20 Nov 2020 10:00:00 GMT"
LATER = "Fri, 20 Nov 2020 10:00:01 GMT"


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


def opened(web: WebServer, path: str = "/a.bin") -> ObjectSource:
    source = storage.open_source(web.url + path)
    assert isinstance(source, ObjectSource)
    return source


@pytest.mark.parametrize("etag", ['"x"', 'W/"x"', None])
@pytest.mark.parametrize("modified", [THEN, None])
def test_reading(web: WebServer, etag: str | None, modified: str | None) -> None:
    web.pages["/a.bin"] = Page(DATA, etag, modified)
    with opened(web) as source:
        assert web.requests == [("GET", "/a.bin", f"bytes=-{TAIL_BYTES}")]
        assert source.read_at(100, 50) == DATA[100:150]
        assert source.read_ranges([(0, 9), (100_000, 9)]) == [DATA[:9], DATA[100_000:100_009]]
        assert source.arrow_file().read() == DATA
        source.check_unchanged()
        assert (source.identity.etag is not None) == (etag == '"x"')
        assert (source.identity.modified_ns is not None) == (etag != '"x"' and modified is not None)


@pytest.mark.parametrize("before", [('"x"', None), ('W/"x"', None), (None, THEN)])
def test_a_change_is_noticed(web: WebServer, before: tuple[str | None, str | None]) -> None:
    web.pages["/a.bin"] = Page(DATA, *before)
    with opened(web) as source:
        after = ('W/"y"' if before[0] and before[0].startswith("W") else '"y"') if before[0] else None
        web.pages["/a.bin"] = Page(DATA[::-1], after, before[1] and LATER)
        for attempt in (lambda: source.read_at(5, 5), lambda: source.arrow_file().read(5), source.check_unchanged):
            with pytest.raises(ConcurrentChangeError, match="it was changed while"):
                attempt()


def test_without_an_etag_or_a_time_the_size_tells(web: WebServer) -> None:
    web.pages["/a.bin"] = Page(DATA)
    with opened(web) as source:
        web.pages["/a.bin"] = Page(DATA + b"more")
        with pytest.raises(ConcurrentChangeError):
            source.read_at(5, 5)
        web.pages["/a.bin"] = Page(DATA[:1000])
        with pytest.raises(ConcurrentChangeError):
            source.read_at(5000, 5)


def test_a_server_that_cannot_count_from_the_end(web: WebServer) -> None:
    web.pages["/a.bin"] = Page(DATA, '"x"', ranges="no suffix")
    with opened(web) as source:
        assert [(method, span) for method, _, span in web.requests] == [
            ("GET", f"bytes=-{TAIL_BYTES}"),
            ("HEAD", None),
            ("GET", f"bytes={len(DATA) - TAIL_BYTES}-{len(DATA) - 1}"),
        ]
        assert (source.requests, source.bytes_read) == (3, TAIL_BYTES)
        assert source.read_at(0, 10) == DATA[:10]


def test_a_server_without_ranges_is_refused(web: WebServer) -> None:
    web.pages["/a.bin"] = Page(DATA, '"x"', ranges="none")
    with pytest.raises(StorageError, match=r"does not answer requests for ranges of bytes$") as caught:
        opened(web)
    assert caught.value.errno == errno.EOPNOTSUPP
    web.pages["/a.bin"] = Page(DATA, '"x"')
    with opened(web) as source:
        web.pages["/a.bin"] = Page(DATA, '"x"', ranges="none")
        with pytest.raises(StorageError, match=r"does not answer requests for ranges of bytes$"):
            source.read_at(10, 10)


def test_short_answers_are_reported(web: WebServer) -> None:
    web.pages["/a.bin"] = Page(DATA, '"x"', short=3)
    with pytest.raises(TruncatedFileError, match=f"read {TAIL_BYTES - 3} of"):
        opened(web)
    web.pages["/a.bin"] = Page(DATA, '"x"')
    with opened(web) as source:
        web.pages["/a.bin"] = Page(DATA, '"x"', short=3)
        for attempt in (
            lambda: source.read_at(10, 10),
            lambda: source.read_ranges([(10, 10), (100_000, 10)]),
            lambda: source.arrow_file().read(10),
        ):
            with pytest.raises(TruncatedFileError, match=r"read 7 of 10 bytes at offset"):
                attempt()


def test_an_empty_file(web: WebServer) -> None:
    web.pages["/a.bin"] = Page(b"", '"x"')
    with opened(web) as source:
        assert source.size == 0
        assert source.arrow_file().read() == b""


@pytest.mark.ci
@pytest.mark.parametrize(
    "path",
    [
        "/a.bin?sig=a%2Bb%3D&x=1",
        "/a%20b/c%2Fd.bin",
        "/%C3%BC.bin",
        "/a//b.bin",
        "/[x]*.bin",
        "/%5Bx%5D%7C.bin",
        "/a%3Fb.bin",
        "/a%2525.bin",
        "/%c3%bc.bin",
        "/a+b=c,@:!$&'()*;~.bin",
        "/",
        "/a/",
    ],
)
def test_urls_are_sent_as_they_stand(web: WebServer, path: str) -> None:
    web.pages[path] = Page(DATA, '"x"')
    web.pages["/a.bin?sig=other"] = Page(DATA[::-1], '"x"')
    assert storage.list_files(web.url + path) == [web.url + path]
    with opened(web, path) as source:
        assert source.read_at(0, 10) == DATA[:10]
        with opened(web, "/a.bin?sig=other") as other:
            assert other.identity != source.identity
        assert "sig" not in str(source.identity)
    assert {request[1] for request in web.requests} == {path, "/a.bin?sig=other"}


@pytest.mark.parametrize(
    ("status", "number", "problem"),
    [(404, errno.ENOENT, "no such object"), (403, errno.EACCES, "access denied"), (418, errno.EIO, "answers 418")],
)
def test_server_messages(web: WebServer, status: int, number: int, problem: str) -> None:
    web.pages["/a.bin"] = Page(DATA, status=status)
    with pytest.raises(StorageError, match=problem) as caught:
        opened(web)
    assert caught.value.errno == number
    assert "\n" not in str(caught.value)


def test_passwords_are_in_no_identity(web: WebServer) -> None:
    for path in ("/a.bin", "/a.bin?sig=x"):
        web.pages[path] = Page(DATA, '"x"')
        with storage.open_source(web.url.replace("//", "//user:secret@") + path) as source:
            assert source.read_at(0, 10) == DATA[:10]
            assert "secret" not in str(source.identity)


def test_redirections_are_followed(web: WebServer) -> None:
    web.pages["/a.bin"] = Page(b"", redirect="/signed/a.bin?x=1")
    web.pages["/signed/a.bin?x=1"] = Page(DATA, '"x"')
    with opened(web) as source:
        assert source.read_ranges([(0, 10), (100_000, 10)]) == [DATA[:10], DATA[100_000:100_010]]


def test_parquet_by_http(web: WebServer) -> None:
    sink = BytesIO()
    keys = np.arange(0, 60_000, 3)
    pq.write_table(pa.table({"key": keys}), sink, row_group_size=5_000)
    web.pages["/a.parquet"] = Page(sink.getvalue(), '"x"')
    url = web.url + "/a.parquet"
    assert parquet_bloom.read_table(url, "key = 30000").column("key").to_pylist() == [30_000]
    cache = MetadataCache()
    for requests in (1, 1):  # one request shows whether it is the same one
        web.requests.clear()
        report = parquet_bloom.prune(url, "key = 30000", cache=cache)
        assert report.selected == {url: [2]}
        assert report.requests == len(web.requests) == requests
    with pytest.raises(StorageError, match="cannot write to a web server"):
        parquet_bloom.embed(url, ["key"], output=web.url + "/b.parquet")
    with pytest.raises(StorageError, match="replaced in place"):
        parquet_bloom.embed(url, ["key"])


def test_options_of_object_stores_are_none_of_the_webs(web: WebServer) -> None:
    with pytest.raises(StorageError, match="'aws_region' is not an option for HTTP"):
        parquet_bloom.open(web.url + "/a", storage_options={"aws_region": "x"})


def test_a_fork_raises_and_does_not_wait_for_ever(web: WebServer) -> None:
    """In a process of its own, as a fork of one with threads may only go on to end."""
    web.pages["/a.bin"] = Page(DATA, '"x"')
    code = (
        "import os, sys; from parquet_bloom import storage, errors\n"
        "before = storage.open_source(sys.argv[1])\n"
        "if os.fork():\n"
        "    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "for ask in (lambda: before.read_at(0, 4), lambda: storage.open_source(sys.argv[1])):\n"
        "    try:\n"
        "        ask()\n"
        "    except errors.StorageError as error:\n"
        "        print(error, flush=True)\n"
        "os._exit(7)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, web.url + "/a.bin"], timeout=60, capture_output=True, text=True, check=False
    )
    assert run.returncode == 7, run.stderr
    assert run.stdout.count("start processes by spawn") == 2
