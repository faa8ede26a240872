"""The commands on objects in S3: named, below a prefix, by a pattern."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def file(first: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(first, first + 100), "name": ["x"] * 100}), sink)
    return sink.getvalue()


def options(s3: Any) -> list[str]:
    return [text for pair in s3.storage_options.items() for text in ("--storage-option", "=".join(pair))]


@pytest.mark.ci
def test_embed_in_place_below_a_prefix_and_by_a_pattern(run: Callable[..., Any], s3: Any) -> None:
    for number in range(3):
        s3.put(f"lake/day={number}/a b.parquet", file(number))
    old = {number: s3.get(f"lake/day={number}/a b.parquet") for number in range(3)}
    done = run("embed", s3.url("lake/day=[01]/*.parquet"), "--column", "id", "--in-place", "--json", *options(s3))
    assert (done.code, done.err) == (0, "")
    report = done.document
    assert [row["file"] for row in report["files"]] == [s3.url(f"lake/day={number}/a b.parquet") for number in (0, 1)]
    assert s3.get("lake/day=2/a b.parquet") == old[2]
    done = run("embed", s3.url("lake/"), "--column", "id", "--in-place", "--json", *options(s3))
    assert done.code == 0
    assert [row["changed"] for row in done.document["files"]] == [False, False, True]
    written = [request.key for request in s3.log if request.operation == "PutObject" and "-probe-" not in request.key]
    assert len(written) == 3
    for number in range(3):
        new = s3.get(f"lake/day={number}/a b.parquet")
        assert new[: len(old[number]) // 2] == old[number][: len(old[number]) // 2]
        assert pq.read_table(io.BytesIO(new))["id"].to_pylist() == list(range(number, number + 100))
    assert run("verify", s3.url("lake/"), *options(s3)).code == 0


def test_an_object_that_is_refused_is_named_and_the_others_are_done(run: Callable[..., Any], s3: Any) -> None:
    for name in ("a", "b", "c"):
        s3.put(f"{name}.parquet", file(0))
    s3.fail("PutObject", status=403, code="AccessDenied", when=lambda request: request.key == "b.parquet")
    paths = [s3.url(f"{name}.parquet") for name in ("a", "b", "c")]
    done = run("embed", *paths, "--column", "id", "--in-place", "--json", *options(s3))
    assert done.code == 2
    assert done.errors == [f"error: {s3.url('b.parquet')}: cannot write it: AccessDenied"]
    assert s3.get("b.parquet") == file(0)
    assert len(s3.get("a.parquet")) > len(file(0)) < len(s3.get("c.parquet"))


def test_a_cache_of_footers_serves_planning_and_reading(run: Callable[..., Any], s3: Any, tmp_path: Path) -> None:
    """The end of each object, which has the footer, is requested once, by whichever step needs it first."""
    values = np.random.default_rng(12).integers(0, 1 << 60, (3, 60_000))
    for number, one in enumerate(values):
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": one, "rare": np.arange(len(one))}), sink)
        s3.put(f"lake/{number}.parquet", sink.getvalue())
    sizes = {f"lake/{number}.parquet": len(s3.get(f"lake/{number}.parquet")) for number in range(3)}
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{values[0][7]}\n{values[2][8]}\n")
    for what in (["--where", f"id IN ({values[0][7]}, {values[2][8]})"], ["--keys", keys, "--key-column", "id"]):
        s3.clear_log()
        arguments = ["--cache", tmp_path / what[0], "--columns", "rare", "--format", "csv", *options(s3)]
        done = run("find", s3.url("lake/"), *what, *arguments)
        assert (done.code, done.out) == (0, "rare\n7\n8\n"), done.err
        ends = [one.key for one in s3.log if one.operation == "GetObject" and reaches_end(one.range, sizes[one.key])]
        # The type of keys is that of their column in the first object, which is opened for it.
        assert sorted(ends) == sorted([*sizes, *(["lake/0.parquet"] if keys in what else [])])


def reaches_end(range_: str, size: int) -> bool:
    first, _, last = range_.removeprefix("bytes=").partition("-")
    return not first or not last or int(last) >= size - 1


def test_index_and_lake_in_an_object_store(run: Callable[..., Any], s3: Any, tmp_path: Path) -> None:
    for number in range(3):
        s3.put(f"lake/day={number}/a b ü.parquet", file(1000 * number))
    index = s3.url("ids.index")

    def do(command: str, *arguments: Any) -> Any:
        done = run("index", command, *arguments, *options(s3))
        assert done.code == 0, done.err
        return done

    do("create", index, "--column", "id", "--lake", s3.url("lake/"))
    do("append", index)
    row = do("lookup", index, "--column", "id", 1005, "--format", "ndjson").document
    assert row == {"value": "1005", "row_groups": None, "rows": None, "file": s3.url("lake/day=1/a b ü.parquet")}
    s3.put("lake/day=9/new.parquet", file(5))
    s3.put("lake/day=0/a b ü.parquet", file(7000))
    candidates = do("lookup", index, "--column", "id", 2005, "--json").document["candidates"]
    assert {row["file"].rpartition("day=")[2][0] for row in candidates} == {"0", "2", "9"}
    assert do("append", index).out.splitlines()[-1].split()[:3] == ["1", "1", "2"]
    do("check", index, "--sample", 9)
    do("remove", index, s3.url("lake/day=2/"))
    do("compact", index)
    assert do("stats", index, "--json").document["totals"]["files"] == 3
    # An index on disk of a lake in an object store.
    do("create", tmp_path / "ids.index", "--column", "id")
    do("append", tmp_path / "ids.index", s3.url("lake/*/*.parquet"))
    done = do("lookup", tmp_path / "ids.index", "--column", "id", 1005, "--format", "csv")
    assert done.out.splitlines()[1:] == [f"1005,,,{s3.url('lake/day=1/a b ü.parquet')}"]
    # One that refuses is one line.
    s3.put("lake/day=9/more.parquet", file(77))
    s3.fail("PutObject", status=403, code="AccessDenied")
    done = run("index", "append", index, "--json", *options(s3))
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "AccessDenied" in done.errors[0]


@pytest.mark.ci
def test_a_table_in_an_object_store(run: Callable[..., Any], s3: Any, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    for start in (0, 100, 200):
        rows = pa.table({"id": range(start, start + 100), "day": ["mon" if start else "sun"] * 100})
        deltalake.write_deltalake(tmp_path / "events", rows, mode="append", partition_by=["day"])
    for path in sorted((tmp_path / "events").rglob("*")):
        if path.is_file():
            s3.put(f"lake/events/{path.relative_to(tmp_path / 'events')}", path.read_bytes())
    url = s3.url("lake/events")
    for path, more, ids in (
        (url, ["--where", "id IN (7, 150) AND day = 'mon'"], [150]),
        (f"{url}/", ["--where", "id IN (7, 150) AND day = 'mon'"], [150]),
        (url.replace("s3://", "s3a://"), ["--where", "id IN (7, 150) AND day = 'mon'"], [150]),
        (url, ["--where", "id IN (7, 150)", "--version", "0"], [7]),
    ):
        assert [row["id"] for row in run("find", path, *more, "--format", "ndjson", *options(s3)).rows] == ids
    assert len(run("prune", url, "--where", "id = 150", "--format", "ndjson", *options(s3)).rows) == 3
    assert run("show", url, "--json", *options(s3)).document["table"]["version"] == 2
    for path in (s3.url("lake"), f"{url}/day=mon"):
        for more, said in (
            ([], "a Delta or Iceberg table is read when its folder is the only PATH"),
            (["--version", "1"], "is none"),
        ):
            done = run("show", path, *more, *options(s3))
            assert (done.code, len(done.errors)) == (2, 1)
            assert said in done.err


def put_delta(s3: Any, folder: Path) -> str:
    """Make a Delta table of three files in the store, and return its URL."""
    deltalake = pytest.importorskip("deltalake")
    for start in (0, 100, 200):
        deltalake.write_deltalake(folder, pa.table({"id": range(start, start + 100)}), mode="append")
    for path in folder.rglob("*"):
        if path.is_file():
            s3.put(f"lake/{folder.name}/{path.relative_to(folder)}", path.read_bytes())
    return str(s3.url(f"lake/{folder.name}"))


@pytest.mark.ci
def test_embed_commits_to_a_delta_table(run: Callable[..., Any], s3: Any, tmp_path: Path) -> None:
    url, command = put_delta(s3, tmp_path / "events"), ["--commit", "--column", "id", *options(s3)]
    done = run("embed", url, *command, "--dry-run", "--json")
    assert (done.code, done.document["totals"]["filters"]) == (0, 3)
    done = run("embed", f"{url}/", *command, "--json", "--max-files", "2")
    assert (done.code, done.err) == (0, "")
    assert [row["changed"] for row in done.document["files"]] == [True, True]
    assert done.document["table"] == {"kind": "delta", "name": f"{url}/", "old_version": 2, "new_version": 3}
    assert run("embed", url.replace("s3:", "s3a:"), *command, "--json").document["totals"]["filters"] == 1
    done = run("embed", url, *command)
    assert (done.code, done.err.endswith("3 files had nothing to add; nothing committed, version 4\n")) == (0, True)
    found = run("find", url, "--where", "id IN (7, 150)", "--format", "ndjson", *options(s3)).rows
    assert sorted(row["id"] for row in found) == [7, 150]
    assert run("verify", url, "--data", *options(s3)).code == 0
    for more in ([], ["--in-place"]):
        done = run("embed", s3.url("lake"), *command, *more)
        assert (done.code, len(done.errors)) == (2, 1), done.err


@pytest.mark.ci
def test_embed_commits_to_an_iceberg_table(
    run: Callable[..., Any], s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    config = pytest.importorskip("pyiceberg.utils.config")
    given = s3.storage_options
    for name, value in (
        ("URI", f"sqlite:///{tmp_path}/catalog.db"),
        ("WAREHOUSE", s3.url("warehouse")),
        ("S3__ENDPOINT", given["aws_endpoint"]),
        ("S3__ACCESS_KEY_ID", given["aws_access_key_id"]),
        ("S3__SECRET_ACCESS_KEY", given["aws_secret_access_key"]),
        ("S3__REGION", given["aws_region"]),
    ):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name}", value)
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", config.Config())
    catalog = catalogs.load_catalog("prod")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for start in (0, 100):
        table.append(pa.table({"id": range(start, start + 100), "name": ["x"] * 100}))
    named, command = ["--iceberg-catalog", "prod", "--table", "db.events"], ["--commit", "--json", "--column"]
    done = run("embed", *named, *command, "id")
    assert (done.code, done.err, done.document["totals"]["filters"]) == (0, "", 2)
    for place in (table.location(), table.metadata_location):  # of which the catalog knows the latest version
        done = run("embed", place, "--iceberg-catalog", "prod", *command, "name")
        assert (done.code, done.err, done.document["table"]["name"]) == (0, "", "db.events")
    assert done.document["totals"]["complete"] == 2
    assert run("find", *named, "--where", "id = 107", "--format", "csv").out == "id,name\n107,x\n"
    for check in (["verify", "--data"], ["show"], ["advise", "--sample", "1"]):
        done = run(check[0], *named, *check[1:])
        assert (done.code, done.errors) == (0, [])
    done = run("embed", table.location(), *command, "id", *options(s3))
    assert done.code == 2
    assert "has no catalog to commit to; name the catalog as well, by catalog= (--iceberg-catalog)" in done.err
    done = run("embed", s3.url("warehouse"), "--iceberg-catalog", "prod", *command, "id")
    assert (done.code, len(done.errors)) == (2, 1)
    assert "none of the 1 table of the catalog is there" in done.err
