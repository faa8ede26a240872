"""`parquet-bloom index` over tables: by folder, by options, by a name in a catalog."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import parquet_bloom


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An Iceberg table `db.events` of a catalog `prod`, with a column that was renamed."""
    pyiceberg = pytest.importorskip("pyiceberg.catalog")
    config = pytest.importorskip("pyiceberg.utils.config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)  # files are known by their times at once
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr(pyiceberg, "_ENV_CONFIG", config.Config())
    catalog = pyiceberg.load_catalog("prod")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    table.append(pa.table({"id": range(0, 200, 2), "text": ["a"] * 100}))
    with table.update_schema() as update:
        update.rename_column("id", "user")
    table.append(pa.table({"user": range(1, 200, 2), "text": ["b"] * 100}))
    return catalog.load_table("db.events")


NAMED = ["--iceberg-catalog", "prod", "--table", "db.events"]


def test_an_index_over_a_table_of_a_catalog(run, iceberg):
    created = run("index", "create", "ids.index", "user", *NAMED)
    assert created.code == 0, created.err
    assert "iceberg db.events in catalog prod" in created.out
    assert "added" in run("index", "append", "ids.index").out
    (lookup,) = parquet_bloom.LakeIndex.open("ids.index").lookup("user", [4])
    assert len(lookup) == 1
    for more in ([], NAMED):
        done = run("find", *more, "--index", "ids.index", "--where", "user IN (4, 5)", "--format", "ndjson")
        assert done.code == 0, done.err
        assert sorted(done.out.split("\n"))[1:] == ['{"user": 4, "text": "a"}', '{"user": 5, "text": "b"}']
        done = run("prune", *more, "--index", "ids.index", "--where", "user = 4")
        assert "2 files ruled out" in done.err or "1 file ruled out by" in done.err, done.err
    iceberg.append(pa.table({"user": [4], "text": ["c"]}))
    assert run("index", "append", "ids.index", *NAMED).out.split()[-6:][0] == "1"
    assert run("find", "--index", "ids.index", "--where", "user = 4", "--format", "ndjson").out.count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--iceberg-catalog", "prod"], "--iceberg-catalog and --table go together"),
        ([*NAMED, "--delta", "x"], "--delta and --table exclude each other"),
        ([*NAMED, "--lake", "x"], "--lake and --table exclude each other"),
        (["--iceberg-catalog", "nowhere", "--table", "a.b"], "a.b: cannot read the Iceberg table"),
        (["--iceberg", "nowhere"], "cannot read the Iceberg table"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(run, iceberg, arguments, problem):
    done = run("index", "create", "ids.index", "user", *arguments)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert len(done.err.splitlines()) == 1
    assert run("index", "create", "ids.index", "user", *NAMED).code == 0


def test_a_folder_that_holds_a_table_is_one(run, tmp_path, monkeypatch):
    deltalake = pytest.importorskip("deltalake")
    monkeypatch.chdir(tmp_path)
    deltalake.write_deltalake("a table", pa.table({"id": range(10)}))
    assert run("index", "create", "first.index", "id", "--lake", "a table").code == 0
    assert run("index", "create", "second.index", "id").code == 0
    assert run("index", "append", "first.index").code == 0
    assert run("index", "append", "second.index", "a table").code == 0
    for name in ("first.index", "second.index"):
        with parquet_bloom.LakeIndex.open(name) as index:
            assert index.state.manifest.lake == {"delta": str(tmp_path / "a table")}
            assert index.snapshot().table["version"] == 0
            assert index.unindexed == []
