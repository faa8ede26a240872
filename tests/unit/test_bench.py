"""The benchmarks' own parts: keys, verdicts, kept results; and, on request, the kernel benchmark itself."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

import parquet_bloom

PROJECT = Path(__file__).resolve().parents[2]
BENCH = PROJECT / "tools" / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def texts(keys) -> list[bytes]:
    ends = keys.offsets.tolist()
    data = keys.values.tobytes()
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize(("kind", "lengths"), [("36-byte", range(36, 37)), ("4-32-byte", range(4, 33))])
def test_keys_repeat_whole(bench, kind, lengths):
    keys = bench("_keys").make(kind, 1000, seed=1)
    result = texts(keys)
    assert {len(text) for text in result} == set(lengths)
    assert len(set(result)) == 1000
    again = texts(keys.repeated(7, 20))
    assert again == (result[:7] * 3)[:20]


def test_keys_in_and_not_in_differ(bench):
    module = bench("_keys")
    present, absent = (module.make("int64", 1000, seed) for seed in (1, 2))
    assert not np.isin(present.values, absent.values).any()
    assert present.repeated(7, 20).values.tolist() == (present.values[:7].tolist() * 3)[:20]


def test_saved_keys_are_arrow_s_layout(bench, tmp_path):
    keys = bench("_keys").make("4-32-byte", 100, seed=1)
    values, offsets = keys.save(tmp_path / "present")
    assert np.array_equal(np.fromfile(values, np.uint8), keys.values)
    assert np.array_equal(np.fromfile(offsets, np.int32), keys.offsets)
    assert keys.offsets[-1] == len(keys.values)


def test_verdicts_name_the_worst_case(bench):
    tables = bench("_kernel_tables")
    times = {"avx512": 1.0, "Arrow batch": 7.0, "Arrow single": 9.0, "limit read": 0.9}
    results = {
        tables.Case("32K", "int64", "insert", 1): times,
        tables.Case("1M", "int64", "insert", 1): times | {"avx512": 1.4},
        tables.Case("16M", "int64", "insert", 1): times | {"limit read": 0.1},  # only the near sizes are held to it
        tables.Case("1M", "int64", "insert", 2): times | {"avx512": 99.0},  # nor are two threads
    }
    by_name = {
        what: (round(worst, 2), position, good) for what, _, worst, position, good in tables.verdicts(results, "avx512")
    }
    assert by_name == {
        "int64 insert, Arrow / ours": (5.0, "1M insert", False),
        "int64 below 2 MiB, ours / limit read": (1.56, "1M insert", False),
    }
    assert list(tables.verdicts(results, "base")) == []


@pytest.mark.ci
def test_a_lake_is_kept_while_it_is_whole(bench, tmp_path):
    lake = bench("_lake").Lake(tmp_path, files=2, row_groups=2, rows=50, fpp=0.01)
    assert not lake.complete()
    lake.make()
    first, second = lake.paths
    assert pq.read_table(second).equals(lake.table(1))
    with parquet_bloom.open(second) as file:
        assert [(chunk.row_group, chunk.column) for chunk in file.chunks()] == [
            (row_group, column) for row_group in (0, 1) for column in ("id", "key")
        ]
    inode = first.stat().st_ino
    lake.make()
    assert first.stat().st_ino == inode
    second.write_bytes(second.read_bytes()[:-1])
    assert not lake.complete()
    lake.make()
    assert lake.complete()
    assert pq.read_table(second).equals(lake.table(1))


def test_lookups_are_judged_by_the_best_peer_and_the_worse_kind(bench):
    tables = bench("_lookup_tables")
    seconds = {"prune": (1, 1), "read_table": (2, 1), "DuckDB": (8, 9), "Spark": (60, 70), "polars": (90, 15)}
    answers = {name: tables.Answers() for name in seconds}
    for name, times in seconds.items():
        for kind, time in zip(tables.KINDS, times, strict=True):
            for use in tables.USES:
                for case in tables.CASES:
                    answers[name].used[use, case, kind] += [time, 0, 1000]  # medians are judged
    matches = [(target.times, target.what, ratios) for target, ratios in tables.verdicts(answers)]
    assert matches[:3] == [
        (3, "seconds", {"DuckDB": 4.0, "Spark": 30.0}),
        (20, "seconds", {"polars": 15.0}),
        (20, "asked", {"DuckDB": 4.0, "Spark": 30.0, "polars": 15.0}),
    ]
    assert len(matches) == len(tables.TARGETS)


def request(objects: ModuleType, method: str, target: str, body: bytes = b"", **headers: str):
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return objects.Request(method.encode(), target.encode(), named, body)


def test_the_slow_store_keeps_s3_s_promises(bench, tmp_path):
    objects = bench("_slow_objects")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"0123456789")
    store = objects.Store({"b": tmp_path})
    etag = store.buckets["b"].entries["a/one"].etag.decode()

    def ask(*words: object, **headers: str) -> tuple[int, bytes]:
        answer = store.answer(request(objects, *words, **headers))
        body = answer.body
        if isinstance(body, objects.Piece):
            body = os.pread(body.descriptor, body.length, body.offset)
        return int(answer.head.split()[1]), body

    assert ask("GET", "/b/a/one", range="bytes=2-4", if_match=etag) == (206, b"234")
    assert ask("GET", "/b/a/one", range="bytes=-3") == (206, b"789")
    assert ask("GET", "/b/a/one", range="bytes=8-99") == (206, b"89")
    assert ask("GET", "/b/a/one", range="bytes=10-")[0] == 416
    assert ask("GET", "/b/a/one", if_match='"another"')[0] == 412
    assert ask("HEAD", "/b/a/two") == (404, b"")
    assert ask("PUT", "/b/a/two", b"new", if_none_match="*")[0] == 200
    assert ask("PUT", "/b/a/two", b"newer", if_none_match="*")[0] == 412
    assert ask("PUT", "/b/a/one", b"newer", if_match='"another"')[0] == 412
    assert ask("GET", "/b/../secret")[0] == 400
    _, started = ask("POST", "/b/a/big?uploads")
    (number,) = re.findall(b"<UploadId>(.*)</UploadId>", started)
    for part in (2, 1):
        assert ask("PUT", f"/b/a/big?partNumber={part}&uploadId={number.decode()}", b"%d" % part)[0] == 200
    assert ask("POST", f"/b/a/big?uploadId={number.decode()}")[0] == 200
    assert (tmp_path / "a" / "big").read_bytes() == b"12"
    assert ask("DELETE", "/b/a/big")[0] == 204
    counts = store.served.counts()
    assert counts["requests"] == {"GET": 6, "HEAD": 1, "PUT": 5, "POST": 2, "DELETE": 1}
    assert counts["again"] == 2  # 8 and 9 were sent before
    assert counts["below"] == {"a": 8}


def test_the_slow_store_lists_page_by_page(bench, tmp_path):
    objects = bench("_slow_objects")
    keys = ["a/1", "a/2", "b", "c/d/3", "e&f"]
    bucket = objects.Bucket(tmp_path)
    for key in keys:
        bucket.put(key, b"")

    def listed(**query: str) -> list[str]:
        names: list[str] = []
        while True:
            text = bucket.listed({name.replace("_", "-"): value for name, value in query.items()})
            names += re.findall("<(?:Key|CommonPrefixes><Prefix)>(.*?)</", text)
            more = re.findall("<NextContinuationToken>(.*)</", text)
            assert bool(more) == ("<IsTruncated>true" in text)
            if not more:
                return names
            query["continuation_token"] = more[0]

    assert listed(max_keys="2") == ["a/1", "a/2", "b", "c/d/3", "e&amp;f"]
    assert listed(max_keys="1", delimiter="/") == ["a/", "b", "c/", "e&amp;f"]
    assert listed(prefix="a/", delimiter="/", start_after="a/1") == ["a/2"]
    assert listed(prefix="none") == []


def test_a_part_of_the_results_is_replaced(bench, tmp_path):
    keep = bench("_results").keep
    path = tmp_path / "RESULTS.md"
    keep(path, "kernels", "# one\n\n## not a part\n")
    keep(path, "embed", "# two")
    keep(path, "kernels", "# three")
    text = path.read_text()
    assert "# two" in text
    assert "# three" in text
    assert "# one" not in text
    assert re.findall("^## .*", text, re.MULTILINE) == ["## embed", "## kernels"]
    noted = text.replace("# two\n```\n", "# two\n```\n\nA note.\n").replace("## embed\n", "## embed\n\nOne run.\n")
    path.write_text(noted)
    keep(path, "kernels", "# three")
    assert path.read_text() == noted  # what people wrote in other parts stays


@pytest.mark.ci
@pytest.mark.parametrize("content", ["plain", "payload", "wide", "list", "dictionary"])
def test_engines_agree_on_a_lake_of_each_shape(bench, tmp_path, content):
    lakes, queries, peers, rows = (bench(f"_shapes_{name}") for name in ("lakes", "queries", "peers", "rows"))
    lake = lakes.Lake("tiny", "", 2, 2, 400, content, pages=content == "plain")
    folder = tmp_path / "data"
    folder.mkdir()
    made = [lakes._make_file(lake, tmp_path, number) for number in range(lake.files)]
    (first, _) = paths = sorted(folder.iterdir())
    assert [size for size, _ in made] == [path.stat().st_size for path in paths]
    assert pq.read_table(first).equals(lake.table(0))
    with parquet_bloom.open(first) as file:
        chunks = [(chunk.row_group, chunk.column) for chunk in file.chunks()]
    assert sorted(chunks) == sorted((group, column) for group in (0, 1) for column in lake.filtered)
    samples = [row for _, some in made for row in some]
    answers: dict[str, dict[str, object]] = {}
    for name, (_, make) in peers.ENGINES.items():
        engine = make()
        opened = engine.open(folder, is_kept=True)
        for query in (queries.make_query(lake, samples, kind, run) for kind in queries.QUERIES for run in range(2)):
            answer = rows.describe(engine.to_rows(engine.query(opened, query.terms, query.columns)))
            assert query.rows in (None, answer["count"]), (name, query)
            assert answers.setdefault(repr(query), answer) == answer, (name, query)
    assert sum(answer["count"] > 0 for answer in answers.values()) >= 7


def test_shapes_are_judged_cell_by_cell(bench):
    tables = bench("_shapes_tables")
    results = tables.Results()
    for cell, times in {
        tables.Cell("warm", "many", "one id"): {"parquet_bloom": 2, "DuckDB": 4, "polars": 9},
        tables.Cell("warm", "groups", "one id"): {"parquet_bloom": 6, "DuckDB": 4, "polars": 3},
        tables.Cell("first", "many", "no filter"): {"parquet_bloom": 6, "DuckDB": 3, "pyarrow": 9},
    }.items():
        for name, seconds in times.items():
            results.cells[cell][name].seconds += [seconds, 0, 1000]  # medians are judged
    lines = [line.split() for demand in tables.DEMANDS for line in tables.describe_demand(results, demand)]
    assert [line[:7] for line in lines if line[0] == "by"] == [
        ["by", "2.00", "x", "warm", "groups", "one", "id"],
        ["by", "1.50", "x", "warm", "many", "one", "id"],
        ["by", "1.33", "x", "first", "many", "no", "filter"],
    ]
    assert sum("ok" in line for line in lines) == 1  # less than pyarrow
    assert sum(line[-1] == "measured" for line in lines) == 3


def test_other_rows_end_the_benchmark_of_shapes(bench):
    shapes, describe = bench("shapes"), bench("_shapes_rows").describe
    cell = bench("_shapes_tables").Cell("warm", "many", "one id")
    rows = describe([{"id": 1, "v": 2.0}, {"id": 2, "v": 3.0}])
    assert shapes._check(cell, "DuckDB", describe([{"v": 3.0, "id": 2}, {"v": 2.0, "id": 1}]), rows) == rows
    for others in (describe([{"id": 1, "v": 2.0}, {"id": 2, "v": 3.5}]), {"count": 1}):
        with pytest.raises(SystemExit, match="warm, many, one id: DuckDB gives other rows"):
            shapes._check(cell, "DuckDB", rows, others)


def run(name: str, *arguments: str) -> str:
    """Return the output of a benchmark."""
    done = subprocess.run(
        [sys.executable, str(BENCH / name), *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ci
def test_shapes_run_in_all_modes(tmp_path):
    options = ["--small", "--lakes", str(tmp_path), "--only", "groups", "--runs", "1", "--peers", "DuckDB"]
    printed = run("shapes.py", *options, "--query", "one id")
    for title in ("first call", "warm, ms", "whole process", "MB read by system calls, first"):
        assert re.search(
            rf"^{title}.* of 1 no worse .*\n.*\n +groups +one id +[0-9]+\.[0-9]{{2}} ", printed, re.MULTILINE
        )
    assert re.search(
        "^  every lake, warm: best peer's time or less: (ok in all 1|falls short in 1)", printed, re.MULTILINE
    )
    assert len(list(tmp_path.glob("groups-*/data/*.parquet"))) == 1


@pytest.mark.long
def test_kernels_run_and_agree(tmp_path):
    output = tmp_path / "RESULTS.md"
    printed = run("kernels.py", "--quick", "--sizes", "32K,1M", "--simd", "base", "--output", str(output))
    assert "left out Arrow" not in printed
    rows = re.findall(r"^ +32K +\S+ +\S+ +[12] \|.*", printed, re.MULTILINE)
    assert len(rows) >= 9
    assert "one `value in filter`, int64" in printed
    assert rows[0] in output.read_text()


@pytest.mark.long
def test_point_lookups_agree(tmp_path):
    sizes = ["--files", "3", "--rows", "100", "--repeat", "1", "--folder", str(tmp_path)]
    printed = run("point_lookup.py", *sizes, "--engines", "DuckDB,DataFusion,polars,pyarrow dataset")
    assert "left out" not in printed
    for name in ("prune", "read_table", "DuckDB", "DataFusion", "polars", "pyarrow dataset"):
        assert len(re.findall(f"^  {name}  ", printed, re.MULTILINE)) == 2


@pytest.mark.long
def test_load_keeps_its_ceilings(tmp_path):
    printed = run("load.py", "--small", "--folder", str(tmp_path))
    assert printed.splitlines()[-1] == "all within their ceilings"
    for name in ("files", "jobs", "columns", "values", "big", "index"):
        assert re.search(f"^{name}: ", printed, re.MULTILINE)


@pytest.mark.long
def test_the_slow_store_answers_all(tmp_path):
    sizes = ["--files", "3", "--repeat", "1", "--latency", "1", "--folder", str(tmp_path)]
    ours = "read_table,prune_disk,index_path,index_open,index_alone,index_not_live,scan_polars,append,append_more"
    printed = run("slow_store.py", *sizes, "--ways", f"{ours},polars,pyarrow_dataset")
    assert "left out" not in printed
    for name in ("read_table, warm", "index, no paths, cold", "polars scan_parquet, cold", "pyarrow dataset, cold"):
        assert len(re.findall(f"^  {name}  ", printed, re.MULTILINE)) == 1
