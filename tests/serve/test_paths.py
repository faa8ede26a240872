"""Paths of clients, in every spelling: nothing outside of the lake is opened, nor does an answer tell what exists."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.asgi import AppClient
from support.path_spellings import ways_out
from support.processes.watching import watching_opens
from support.scale import scaled

from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.serve.request_guards import HostGuard
from parquet_bloom.serve.server import build_app
from parquet_bloom.serve.service import Service
from parquet_bloom.serve.service_settings import Settings

from .conftest import Process

SECRET, KEY = "TOP SECRET", 4711
LINKS = {"folder": "_lnk", "up": "_up", "chain": "_chain", "relative": "_rel"}
Send = Callable[[str, str, Any], tuple[int, str]]


def write(path: Path, key: int, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [key], "text": [text]}), path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake, an index of it, and beside them what is nobody's business; links in the lake that a listing skips."""
    write(tmp_path / "lake" / "0.parquet", 0)
    write(tmp_path / "lake" / "sub" / "1.parquet", 1)
    write(tmp_path / "private" / "x.parquet", KEY, SECRET)
    (tmp_path / "private" / "folder").mkdir()
    lake = tmp_path / "lake"
    (lake / "_lnk").symlink_to(tmp_path / "private")
    (lake / "_rel").symlink_to("../private")
    (lake / "_chain").symlink_to("_lnk")
    (lake / "_up").symlink_to("..")
    (lake / "_file.parquet").symlink_to("../private/x.parquet")
    (lake / "_none.parquet").symlink_to("../private/nothing")
    (lake / "_inside").symlink_to("sub")
    with LakeIndex.create(tmp_path / "index", ["id"], lake=str(lake)) as index:
        index.append()
    return tmp_path


@pytest.fixture(params=["in process", pytest.param("process", marks=pytest.mark.long)])
def send(request: Any, root: Path) -> Iterator[Send]:
    """Send a request to a service with rows; return status and answer."""
    if request.param == "process":
        process = Process(root / "index", "--rows")

        def send_to_process(method: str, path: str, document: Any) -> tuple[int, str]:
            body = None if document is None else json.dumps(document)
            headers = {} if body is None else {"content-type": "application/json"}
            response = process.client.request(method, path, content=body, headers=headers)
            return response.status_code, response.text

        yield send_to_process
        assert process.stop() == (0, "")
        return
    with (
        LakeIndex.open(root / "index") as index,
        closing(Service(index, Settings(rows=True))) as service,
        AppClient(build_app(service)) as client,
    ):

        def send_in_process(method: str, path: str, document: Any) -> tuple[int, str]:
            response = client.get(path) if method == "GET" else client.post(path, document)
            return response.status_code, response.text

        yield send_in_process


def pairs(root: Path) -> Iterator[tuple[str, str]]:
    """Each way out, to what exists and to what does not; the names are of one length."""
    yield f"{root}/lake/_file.parquet", f"{root}/lake/_none.parquet"
    names = itertools.cycle([("x.parquet", "y.parquet"), ("folder", "nofold"), ("x.parquet", "y.parquet")])
    for way, pair in zip(dict.fromkeys(ways_out("lake", "private", LINKS)), names, strict=False):
        there, not_there = (way.replace("{root}", str(root)).replace("*NAME*", name) for name in pair)
        yield there, not_there


def neutral(answer: str, path: str) -> str:
    """An answer without the path that was asked for, as it is printed."""
    text = str(json.loads(answer).get("error", answer))
    for form in (repr(path[:200])[1:-1], path, json.dumps(path)[1:-1]):
        text = text.replace(form, "PATH")
    return text.replace("y.parquet", "x.parquet").replace("nofold", "folder").replace("_none.parquet", "_file.parquet")


def test_no_spelling_leads_out_of_the_lake(root: Path, send: Send) -> None:
    asked = dict.fromkeys(("/append", "/remove"), 0)
    with watching_opens(root / "private", root / "private" / "folder") as opened:
        step = 5 if scaled(1) < 40 else 1  # all of them in the long tier
        for number, (there, not_there) in enumerate(itertools.islice(pairs(root), 0, None, step)):
            for address in asked if number % 4 == 0 else ("/append",):
                answers = []
                for path in (there, not_there):
                    status, text = send("POST", address, {"files": [path]})
                    assert status in (403, 404, 422), (address, path, text)
                    answers.append((status, neutral(text, path)))
                    asked[address] += 1
                assert answers[0] == answers[1], (address, there)
    assert opened == []
    assert asked["/append"] > 2_000 // step
    assert asked["/remove"] > 500 // step
    assert json.loads(send("GET", "/stats", None)[1])["files"] == 2
    assert json.loads(send("POST", "/get", {"column": "id", "keys": [KEY, 0]})[1])["rows"] == [{"id": 0, "text": "x"}]


def test_what_is_in_the_lake_is_appended_by_any_right_name(root: Path, send: Send) -> None:
    lake = root / "lake"
    write(lake / "sub" / "%2e%2e.parquet", 2)
    write(lake / "sub" / "a[1].parquet", 3)
    write(lake / "p=a%2Fb" / "4.parquet", 4)
    write(lake / "_t=1" / "5.parquet", 5)
    write(lake / ".hidden.parquet", 6)
    right = {
        f"{lake}/sub/%2e%2e.parquet": 1, f"{lake}/sub/a[1].parquet": 1, f"{lake}/p=a%2Fb/": 1, f"{lake}//./_t=1/*": 1,
        f"{lake}/_inside/%2e*": 0, f"{lake}/sub": 0, f"{lake}/p=*/*.parquet": 0, f"{lake}/_inside/1.parquet": 0,
        f"{lake}/?ub/[0-9]*": 0, f"{lake}/sub/**/*.parquet": 0, f"{lake}/.hidden.parquet": 1,
    }  # fmt: skip
    for path, added in right.items():
        status, text = send("POST", "/append", {"files": [path]})
        assert status == 200, (path, text)
        assert json.loads(text)["added"] == added, (path, text)
    for path in (
        f"{lake}/*",
        f"{lake}/**",
        f"{lake}/_lnk",
        f"{lake}/s*/nothing",
        f"{lake}/nothing",
        f"{lake}/0.parquet/x",
    ):
        assert send("POST", "/append", {"files": [path]})[0] in (200, 403, 404)
    for number in range(7):
        rows = json.loads(send("POST", "/get", {"column": "id", "keys": [number]})[1])["rows"]
        assert [row["id"] for row in rows] == [number]
    assert send("POST", "/remove", {"files": [f"{lake}/sub/%2e%2e.parquet"]})[0] == 200
    assert SECRET not in send("POST", "/get", {"column": "id", "keys": [KEY]})[1]


def test_no_answer_tells_whether_a_link_elsewhere_leads_into_the_lake(root: Path, send: Send) -> None:
    """Nor does one by a way that leaves the lake and comes back."""
    (root / "private" / "to_lake").symlink_to(root / "lake")
    (root / "private" / "to_file.parquet").symlink_to(root / "lake" / "0.parquet")
    with open(root / "lake" / "0.parquet", "rb") as file:
        descriptor = file.fileno()
        ways = {
            f"{root}/private/to_lake": f"{root}/private/no_lake",
            f"{root}/private/to_lake/": f"{root}/private/no_lake/",
            f"{root}/private/to_lake/0.parquet": f"{root}/private/no_lake/0.parquet",
            f"{root}/private/to_lake/*": f"{root}/private/no_lake/*",
            f"{root}/private/to_lake/s*/1.parquet": f"{root}/private/no_lake/s*/1.parquet",
            f"{root}/private/to_file.parquet": f"{root}/private/no_file.parquet",
            f"{root}/lake/_lnk/to_file.parquet": f"{root}/lake/_lnk/no_file.parquet",
            f"{root}/lake/_up/lake/0.parquet": f"{root}/lake/_up/cake/0.parquet",
            f"{root}/lake/_up/lake": f"{root}/lake/_up/cake",
            f"{root}/lake/_chain/to_lake/sub": f"{root}/lake/_chain/no_lake/sub",
            f"/proc/self/root{root}/lake/0.parquet": f"/proc/self/boot{root}/lake/0.parquet",
            f"/proc/self/fd/{descriptor}": "/proc/self/fd/99999",
        }
        for there, not_there in ways.items():
            for files in ([there], [f"{root}/lake/0.parquet", there]):
                others = [not_there if path == there else path for path in files]
                answers = [send("POST", "/append", {"files": some}) for some in (files, others)]
                assert [status for status, _ in answers] == [403, 403], there
                assert answers[0][1].replace(there, "PATH") == answers[1][1].replace(not_there, "PATH")


def test_a_lake_by_a_link_has_one_name_of_each_file(root: Path, serve: Callable[..., Process]) -> None:
    (root / "alias").symlink_to(root / "lake")
    with LakeIndex.create(root / "index2", ["id"], lake=str(root / "alias")) as index:
        index.append()
    service = serve(root / "index2", "--rows")
    for path in (f"{root}/lake/0.parquet", f"{root}/alias/0.parquet", f"{root}/alias/_inside", f"{root}/lake/sub/*"):
        answer = service.post("/append", {"files": [path]})
        assert (answer.status_code, answer.json()["added"], answer.json()["unchanged"]) == (200, 0, 1), path
    assert service.post("/get", {"column": "id", "keys": [1, 0]}).json()["rows"] == [
        {"id": 1, "text": "x"}, {"id": 0, "text": "x"}
    ]  # fmt: skip


def test_rows_of_an_index_without_files(root: Path, send: Send) -> None:
    assert send("POST", "/remove", {"files": ["/"]})[0] == 200
    status, text = send("POST", "/get", {"column": "id", "keys": [0]})
    assert (status, "the index has no files" in text) == (404, True)


def test_links_that_are_swapped_meanwhile(root: Path, send: Send) -> None:
    """A file and a folder of the lake are at times links to what is outside, also while their rows are read."""
    lake = root / "lake"
    write(root / "spare.parquet", 7)
    write(lake / "turns" / "x.parquet", 7)
    (root / "link").symlink_to(root / "private")
    ended = threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if ended.is_set():
                return
            new = root / f"new{number % 2}"
            if number % 2:
                os.symlink(root / "private" / "x.parquet", new)
            else:
                os.link(root / "spare.parquet", new)
            os.replace(new, lake / "turn.parquet")
            time.sleep(0.0003)
            for one, other in ((lake / "turns", root / "kept"), (root / "link", lake / "turns")):
                os.rename(one, other)
            time.sleep(0.0003)
            for one, other in ((lake / "turns", root / "link"), (root / "kept", lake / "turns")):
                os.rename(one, other)

    swapping = threading.Thread(target=swap)
    answers: set[int] = set()
    with watching_opens(root / "private"):
        swapping.start()
        try:
            for number in range(60):
                files = [f"{lake}/turn.parquet", f"{lake}/turns/x.parquet", f"{lake}/turns", f"{lake}/turns/*"]
                requests = [
                    ("/append", {"files": [files[number % 4]], "skip_unreadable": number % 3 == 0}),
                    ("/get", {"column": "id", "keys": [KEY, 7][: 1 + number % 2]}),
                    ("/lookup", {"column": "id", "values": [KEY]}),
                ]
                if number % 5 == 0:
                    requests.append(("/remove", {"files": [files[0]]}))
                for address, document in requests:
                    status, text = send("POST", address, document)
                    assert SECRET not in text
                    assert status in (200, 403, 404, 422, 500), text
                    answers.add(status)
        finally:
            ended.set()
            swapping.join()
    # What was open before may be opened by its path again, and is closed unread if it is not that file.
    assert {200, 403} <= answers
    with LakeIndex.open(root / "index", live=False) as index:
        assert index.lookup("id", [KEY]) == [[]]


def test_a_link_of_the_lake_leads_to_rows_where_it_may(root: Path, serve: Callable[..., Process]) -> None:
    """The lake's own listing follows it, so it is named; its rows are given to nobody unless a root allows it."""
    (root / "lake" / "seen").symlink_to(root / "private")
    service = serve(root / "index", "--rows")
    with watching_opens(root / "private") as opened:
        assert [path for path, _ in service.lookup("id", [KEY])[0]] == [f"{root}/lake/seen/x.parquet"]
        response = service.post("/get", {"column": "id", "keys": [KEY]})
        assert response.status_code == 403
        assert "seen/x.parquet: it is outside of the lake's folders" in response.json()["error"]
        assert service.post("/append", {}).status_code == 403
    assert "x.parquet" not in opened
    allowed = serve(root / "index", "--rows", "--root", str(root / "private"))
    assert allowed.post("/get", {"column": "id", "keys": [KEY]}).json()["rows"] == [{"id": KEY, "text": SECRET}]


def test_a_folder_that_was_appended_is_no_folder_of_the_lake(root: Path, serve: Callable[..., Process]) -> None:
    write(root / "more" / "sub" / "8.parquet", 8)
    service = serve(root / "index", "--rows", "--root", str(root / "more"))
    assert service.post("/append", {"files": [f"{root}/more/sub"]}).json()["added"] == 1
    assert service.stop() == (0, "")
    (root / "more" / "sub").rename(root / "more" / "was")
    (root / "more" / "sub").symlink_to(root / "private")
    write(root / "more" / "was" / "9.parquet", 9)
    service = serve(root / "index", "--rows")
    with LakeIndex.open(root / "index", live=False) as index:
        assert index.state.manifest.lake == {"paths": [f"{root}/lake"]}
    for path in (f"{root}/more/sub", f"{root}/more/sub/x.parquet", f"{root}/more/was/9.parquet"):
        assert service.post("/append", {"files": [path]}).status_code == 403
    assert service.post("/get", {"column": "id", "keys": [KEY]}).json()["rows"] == []


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True), ("127.0.0.1:8899", True), ("localhost:1", True), ("LOCALHOST", True), ("[::1]:80", True),
        ("[::1]", True), ("127.0.0.1:", True), ("127.0.0.1:8899.evil.com", False),
        ("localhost:80@evil.com", False), ("[::1].evil.com", False),
        ("[::1]evil.com:80", False), ("localhost.evil.com", False), ("a@localhost", False), ("localhost:80:80", False),
        ("localhost:x", False), ("127.0.0.1, evil.com", False), ("[127.0.0.1", False), ("localhost/", False),
    ],
)  # fmt: skip
def test_a_host_is_a_name_and_a_port(host: str, is_own: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with AppClient(HostGuard(app, "127.0.0.1", print)) as client:
        assert client.get("/", headers={"host": host}).status_code == (200 if is_own else 421)
        for origin in ("null", "evil", "http://evil.com", f"http://{host}.evil.com", f"ftp://{host}", "://" + host):
            assert client.get("/", headers={"host": host, "origin": origin}).status_code in (403, 421)
