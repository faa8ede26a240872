"""Test a dataset as engines see it: queries, errors, files that change, and pyarrow's whole interface."""

from __future__ import annotations

import concurrent.futures
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyarrow import acero
from support.random_cases.engine_queries import recording

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import NotParquetError, ParquetBloomError, UnreadableColumnError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.scan.dataset import Dataset, Fragment
from parquet_bloom.scan.model.file_schemas import arrow_schema
from parquet_bloom.scan.plan.file_level import LocalFiles
from parquet_bloom.scan.plan.statistics_level import cache_footers
from parquet_bloom.scan.scan_source import ScanSource

FILES, ROWS = 5, 40


def make_table(number: int) -> pa.Table:
    rows = range(number * ROWS, (number + 1) * ROWS)
    # Ids spread over the whole range in every file, so that only filters can tell.
    return pa.table({"row": rows, "id": [row * 7919 % 1000 for row in rows], "text": [f"t{row}" for row in rows]})


def find_id(row: int) -> int:
    return row * 7919 % 1000


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(FILES):
        path = folder / f"{number}.parquet"
        pq.write_table(make_table(number), path, row_group_size=20)
        parquet_bloom.embed(path, ["id"], fpp=1e-6)
    return folder


def by_duckdb(dataset: Any, number: int) -> list[int]:
    with duckdb.connect() as connection:
        connection.register("lake", dataset)
        return [row for (row,) in connection.execute(f"SELECT row FROM lake WHERE id = {number}").fetchall()]


def by_polars(dataset: Any, number: int) -> list[int]:
    return pl.scan_pyarrow_dataset(dataset).filter(pl.col("id") == number).collect()["row"].to_list()


def by_lazy_frame(dataset: Any, number: int) -> list[int]:
    return dataset.to_polars().filter(pl.col("id") == number).collect()["row"].to_list()


def by_datafusion(dataset: Any, number: int) -> list[int]:
    context = datafusion.SessionContext()
    context.register_dataset("lake", dataset)
    return context.sql(f"SELECT row FROM lake WHERE id = {number}").to_arrow_table()["row"].to_pylist()


def by_pyarrow(dataset: Any, number: int) -> list[int]:
    return dataset.to_table(["row"], filter=pc.field("id") == number)["row"].to_pylist()


ENGINES: list[Callable[[Any, int], list[int]]] = [by_duckdb, by_polars, by_lazy_frame, by_datafusion, by_pyarrow]
each_engine = pytest.mark.parametrize("ask", ENGINES)


# -------------------------------------------------------------------------------------------- pyarrow's interface


@pytest.mark.parametrize(("ours", "base"), [(Dataset, ds.Dataset), (Dataset, ds.UnionDataset), (Fragment, ds.Fragment)])
def test_nothing_is_inherited_from_compiled_classes(ours, base):
    # A new member of pyarrow's has to be defined, for the inherited one would read no file.
    assert {name for name in dir(base) if not name.startswith("__")} <= {*vars(ours)}


def test_compiled_code_that_is_handed_a_dataset_says_what_to_do(lake):
    dataset = parquet_bloom.dataset(lake)
    scans: list[Callable[[], Any]] = [
        lambda: ds.Scanner.from_dataset(dataset).to_table(),
        lambda: ds.dataset([dataset, dataset]).to_table(),
        lambda: acero.Declaration("scan", acero.ScanNodeOptions(dataset)).to_table(),
    ]
    for scan in scans:
        with pytest.raises(OSError, match="read by their own methods"):
            scan()


def test_pyarrow_writes_a_dataset(lake, tmp_path):
    ds.write_dataset(
        parquet_bloom.dataset(lake).filter(pc.field("id") == find_id(70)), tmp_path / "out", format="parquet"
    )
    assert ds.dataset(tmp_path / "out").to_table()["row"].to_pylist() == [70]


def test_methods_of_pyarrow(lake):
    dataset, plain = parquet_bloom.dataset(lake), ds.dataset(lake)
    wanted = pc.field("row") >= 190
    assert isinstance(dataset, ds.Dataset)
    assert "parquet_bloom.Dataset" in repr(dataset)
    assert dataset.children == []
    assert dataset.schema == plain.schema
    assert dataset.head(3) == plain.head(3)
    assert dataset.take([0, 5]) == plain.take([0, 5])
    assert dataset.count_rows() == plain.count_rows() == FILES * ROWS
    assert dataset.count_rows(filter=wanted) == 10
    assert dataset.sort_by([("row", "descending")]).to_table()["row"][0].as_py() == 199
    right = pa.table({"row": [3], "other": ["x"]})
    assert dataset.join(ds.dataset(right), "row", join_type="inner").to_table()["other"].to_pylist() == ["x"]
    assert dataset.replace_schema(pa.schema([("row", pa.int32())])).to_table().schema.field("row").type == pa.int32()
    filtered = dataset.filter(wanted).filter(pc.field("row") < 192)
    assert filtered.to_table()["row"].to_pylist() == [190, 191]
    assert dataset.to_table({"twice": pc.field("row") * 2}, filter=wanted)["twice"][0].as_py() == 380
    with pytest.raises(ParquetBloomError, match="scan the dataset itself"):
        filtered.scan("row = 1")


def test_fragments(lake):
    dataset = parquet_bloom.dataset(lake)
    [fragment] = dataset.get_fragments(pc.field("id") == find_id(70))
    assert fragment.path.endswith("1.parquet")
    assert fragment.row_groups == [1]
    assert fragment.to_table(columns=["row"])["row"].to_pylist() == [70]
    assert fragment.count_rows(filter=pc.field("row") == 71) == 0
    assert fragment.physical_schema == dataset.schema
    assert "row groups [1]" in repr(fragment)
    assert [one.row_groups for one in dataset.get_fragments(pc.field("row") < 0)] == [[]]  # DataFusion needs one


def test_a_fragment_keeps_its_doubts_whatever_else_filters_it(tmp_path):
    """A filter whose columns cannot be read, by position, does not make the first filter's evidence apply."""
    pq.write_table(pa.table({"row": [1], "x": pa.array([0.1], pa.float32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"row": [2], "x": pa.array([0.1], pa.float64())}), tmp_path / "b.parquet")
    dataset, plain = parquet_bloom.dataset(tmp_path), ds.dataset(tmp_path / "a.parquet")
    stored = pa.scalar(0.1, pa.float32()).cast(pa.float64())
    assert plain.count_rows(filter=pc.field("x") == stored) == 1
    [fragment] = [one for one in dataset.get_fragments(pc.field("x") == stored) if one.count_rows()]
    assert fragment.to_table(filter=pc.field(0) == 1)["row"].to_pylist() == [1]


@pytest.mark.parametrize("cache", ["shared", "none", "disk"])
def test_a_dataset_pickles(lake, tmp_path, cache):
    caches = {"shared": {}, "none": {"cache": None}, "disk": {"cache": parquet_bloom.DiskMetadataCache(tmp_path / "c")}}
    dataset = parquet_bloom.dataset(lake, **caches[cache]).filter(pc.field("row") > 5)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.schema == dataset.schema
    assert again.count_rows() == FILES * ROWS - 6
    assert by_pyarrow(again, find_id(70)) == [70]


# ---------------------------------------------------------------------------------------------------------- queries


@each_engine
def test_one_value_is_read_from_one_file(lake, ask):
    dataset = parquet_bloom.dataset(lake)
    reports: list[Any] = []
    with recording(reports):
        assert ask(dataset, find_id(70)) == [70]
        assert ask(dataset, 3) == by_pyarrow(ds.dataset(lake), 3)
    assert sum(map(bool, reports[0].selected.values())) == 1


@pytest.mark.usefixtures("settled_tokens")
@each_engine
def test_an_index_opens_one_file_alone(lake, tmp_path, ask):
    with LakeIndex.create(tmp_path / "index", "id") as made:
        made.append(lake)
    with LakeIndex.open(tmp_path / "index") as index:
        for dataset in (
            parquet_bloom.dataset(lake, index=tmp_path / "index"),
            parquet_bloom.dataset(lake, index=index),
            parquet_bloom.dataset(index),
        ):
            reports: list[Any] = []
            with recording(reports):
                assert ask(dataset, find_id(70)) == [70]
            assert reports[0].total_files - reports[0].unopened_files == 1


def test_a_view_of_duckdb_prunes_for_each_query(lake):
    with duckdb.connect() as connection:
        connection.register("lake", parquet_bloom.dataset(lake))
        connection.execute("CREATE VIEW v AS SELECT row, id FROM lake")
        for row in (70, 3, 199):
            reports: list[Any] = []
            with recording(reports):
                query = f"WITH few AS (SELECT * FROM v WHERE id = {find_id(row)}) SELECT row FROM few"
                assert connection.execute(query).fetchall() == [(row,)]
            assert reports[0].selected_row_groups == 1
        assert connection.execute("SELECT count(*) FROM v").fetchall() == [(FILES * ROWS,)]
        assert connection.execute("SELECT row FROM v ORDER BY row DESC LIMIT 2").fetchall() == [(199,), (198,)]
        query = "SELECT a.row FROM v AS a JOIN v AS b ON a.row = b.row + 1 WHERE b.id = ?"
        assert connection.execute(query, [find_id(70)]).fetchall() == [(71,)]


@pytest.mark.ci
@each_engine
def test_two_queries_at_once(lake, ask):
    dataset = parquet_bloom.dataset(lake)
    rows = list(range(0, 200, 9))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda row: ask(dataset, find_id(row)), rows))
    assert found == [[row] for row in rows]


@pytest.mark.ci
def test_more_scans_at_once_than_arrow_has_threads(tmp_path):
    """Each of DataFusion's scans waits in one of Arrow's few threads for files, and none may need another of them."""
    for number in range(20):
        pq.write_table(make_table(number), tmp_path / f"{number}.parquet", row_group_size=5)
    context = datafusion.SessionContext()
    context.register_dataset("lake", parquet_bloom.dataset(tmp_path))
    query = "SELECT count(*) AS n, max(a.text) AS t FROM lake AS a JOIN lake AS b ON a.id = b.id AND a.row = b.row"
    for _ in range(5):
        assert context.sql(query).to_arrow_table()["n"].to_pylist() == [800]


@pytest.mark.ci
@each_engine
def test_of_partitions_zones_and_orc_files(tmp_path, ask):
    for number in range(4):
        folder = tmp_path / "lake" / f"part={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        if number < 2:
            pq.write_table(make_table(number), folder / f"{number}.parquet")
        else:
            orc.write_table(make_table(number), folder / f"{number}.orc", bloom_filter_columns=[1])
    dataset = parquet_bloom.dataset(tmp_path / "lake")
    assert dataset.schema.field("part").type == pa.int64()
    for row in (3, 70, 100, 159):
        assert ask(dataset, find_id(row)) == [row]
    reports: list[Any] = []
    with recording(reports):
        found = dataset.to_table(["row", "part"], filter=(pc.field("part") == 1) & (pc.field("id") == find_id(70)))
    assert found.to_pylist() == [{"row": 70, "part": 1}]
    assert all("part=1" in path for path in reports[0].selected)


@each_engine
def test_with_zones(tmp_path, ask):
    pq.write_table(pa.concat_tables([make_table(number) for number in range(25)]), tmp_path / "a.parquet")
    zones.build(tmp_path / "a.parquet", "row", tmp_path / "zones.arrow", rows_per_zone=64)
    dataset = parquet_bloom.dataset(tmp_path / "a.parquet", zones=tmp_path / "zones.arrow")
    assert ask(dataset, find_id(70)) == [70]
    assert dataset.to_table(["id"], filter=pc.field("row") == 70)["id"].to_pylist() == [find_id(70)]
    assert not dataset.scan("row = 70").plan().zone_doubts


@pytest.mark.ci
@each_engine
def test_of_objects(s3, lake, ask):
    for path in lake.iterdir():
        s3.put(f"lake/{path.name}", path.read_bytes())
    dataset = parquet_bloom.dataset(s3.url("lake/"), storage_options=s3.storage_options)
    assert ask(dataset, find_id(70)) == [70]


# ------------------------------------------------------------------------------------------- what a schema may hold


def compare(folder: Path, expression: pc.Expression) -> list[Any]:
    """Compare the rows for which a filter is true with pyarrow's; return them."""
    dataset = parquet_bloom.dataset(folder)
    found = dataset.to_table(["row"], filter=expression)["row"].to_pylist()
    assert (
        found
        == ds.dataset(dataset.files, schema=dataset.schema).to_table(["row"], filter=expression)["row"].to_pylist()
    )
    return found


def test_a_column_that_some_files_require_and_others_lack(tmp_path):
    required = pa.schema([pa.field("row", pa.int64(), False), pa.field("x", pa.int64(), False)])
    pq.write_table(pa.table({"row": [1, 2], "x": [5, 6]}, required), tmp_path / "a.parquet")
    pq.write_table(pa.table({"row": [3]}), tmp_path / "b.parquet")
    assert compare(tmp_path, pc.field("x").is_null()) == [3]
    assert compare(tmp_path, pc.field("x") == 5) == [1]
    dataset = parquet_bloom.dataset(tmp_path)
    assert all(field.nullable for field in dataset.schema)
    context = datafusion.SessionContext()
    context.register_dataset("lake", dataset)
    assert context.sql("SELECT row FROM lake WHERE x IS NULL").to_arrow_table()["row"].to_pylist() == [3]


def test_structs_of_other_members(tmp_path):
    for number, value in enumerate([{"x": 5}, {"x": 5, "y": "b"}, {"y": "b"}, None]):
        kind = pa.struct([pa.field(name, pa.int64() if name == "x" else pa.string(), True) for name in value or ["x"]])
        pq.write_table(pa.table({"row": [number], "s": pa.array([value], kind)}), tmp_path / f"{number}.parquet")
    assert compare(tmp_path, pc.field("s", "x") == 5) == [0, 1]
    assert compare(tmp_path, pc.field("s", "x").is_null()) == [2, 3]
    assert compare(tmp_path, ~(pc.field("s", "y") == "b")) == []
    assert compare(tmp_path, pc.field("s", "y").is_null()) == [0, 3]


def test_names(tmp_path):
    pq.write_table(pa.table({"row": [1, 2], "A": [5, None], "s.x": [5, None]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"row": [3, 4], "a": [None, 5], "s.x": [None, 5]}), tmp_path / "b.parquet")
    assert compare(tmp_path, pc.field("A") == 5) == [1]
    assert compare(tmp_path, pc.field("a").is_null()) == [1, 2, 3]
    assert compare(tmp_path, pc.field("s.x") == 5) == [1, 4]
    assert compare(tmp_path, pc.field("s.x").is_null()) == [2, 3]


def test_booleans_are_ordered_by_engines(tmp_path):
    pq.write_table(pa.table({"row": [1, 2, 3], "flag": [True, False, None]}), tmp_path / "a.parquet")
    assert compare(tmp_path, pc.field("flag") > False) == [1]
    frame = parquet_bloom.dataset(tmp_path).to_polars()
    assert frame.filter(pl.col("flag") < True).collect()["row"].to_list() == [2]


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UnreadableColumnError):
        parquet_bloom.dataset(tmp_path)


# ----------------------------------------------------------------------------------------- files that change, errors


@each_engine
def test_each_query_sees_the_files_of_its_time(lake, ask):
    dataset = parquet_bloom.dataset(lake)
    assert ask(dataset, find_id(210)) == []
    pq.write_table(make_table(5), lake / "5.parquet")
    assert ask(dataset, find_id(210)) == [210]
    pq.write_table(make_table(6), lake / "5.parquet")
    assert ask(dataset, find_id(210)) == []
    assert ask(dataset, find_id(250)) == [250]
    (lake / "5.parquet").unlink()
    assert ask(dataset, find_id(250)) == []
    assert ask(dataset, find_id(70)) == [70]
    for path in lake.iterdir():
        path.unlink()
    assert ask(dataset, find_id(70)) == []


def test_the_schema_stays(lake):
    dataset = parquet_bloom.dataset(lake)
    schema = dataset.schema
    table = pa.table({"row": pa.array([500], pa.int32()), "id": [1.0], "new": ["x"]})
    pq.write_table(table, lake / "5.parquet")
    assert dataset.to_table(filter=pc.field("row") == 500).to_pylist() == [{"row": 500, "id": 1, "text": None}]
    assert dataset.schema == schema
    assert "new" in parquet_bloom.dataset(lake).schema.names


@pytest.mark.ci
@each_engine
@pytest.mark.parametrize("fault", ["short", "cut", "page", "type"])
def test_an_error_names_the_file(lake, ask, fault):
    dataset = parquet_bloom.dataset(lake)
    broken = lake / "2.parquet"
    data = bytearray(broken.read_bytes())
    if fault == "type":
        pq.write_table(pa.table({"row": ["a"], "id": [find_id(100)]}), broken)
    else:
        data[4:1000] = b"\xff" * 996
        broken.unlink()  # another file, and not this one with its old footer
        broken.write_bytes({"short": b"PAR1xx", "cut": data[:-10], "page": data}[fault])
    with pytest.raises(Exception, match=r"2\.parquet: ") as raised:
        ask(dataset, find_id(100))
    if isinstance(raised.value, NotParquetError | UnreadableColumnError):
        assert "\n" not in str(raised.value)


@each_engine
def test_partition_columns_stay_as_they_were(tmp_path, ask):
    """Folders that come later cannot make a column disappear, or change what its values are compared as."""
    for number in range(2):
        (tmp_path / f"p={number}").mkdir()
        pq.write_table(make_table(number), tmp_path / f"p={number}" / "a.parquet")
    dataset = parquet_bloom.dataset(tmp_path)
    assert dataset.schema.field("p").type == pa.int64()
    (tmp_path / "p=2").mkdir()
    pq.write_table(make_table(2), tmp_path / "p=2" / "a.parquet")
    assert dataset.to_table(filter=pc.field("p") == 2)["row"].to_pylist() == [*range(80, 120)]
    assert dataset.count_rows(filter=pc.field("p") >= 0) == 3 * ROWS
    (tmp_path / "p=x").mkdir()
    pq.write_table(make_table(3), tmp_path / "p=x" / "a.parquet")
    for number in (find_id(0), 5000):
        with pytest.raises(Exception, match=r"column 'p': a folder's value is not of the dataset's type int64: .*'x'"):
            ask(dataset, number)
    (tmp_path / "p=x" / "a.parquet").rename(tmp_path / "b.parquet")
    with pytest.raises(Exception, match="column 'p': files of this folder are in no folder of this partition column"):
        ask(dataset, find_id(0))
    (tmp_path / "b.parquet").unlink()
    assert ask(dataset, find_id(0)) == [0]


def test_partition_values_are_of_the_type_that_is_given(tmp_path):
    for number, name in enumerate(("01", "1", "__HIVE_DEFAULT_PARTITION__")):
        (tmp_path / f"p={name}").mkdir()
        pq.write_table(make_table(number), tmp_path / f"p={name}" / "a.parquet")
    schema = pa.schema({"row": pa.int64(), "p": pa.string()})
    texts = parquet_bloom.dataset(tmp_path, schema=schema)
    plain = ds.dataset(
        tmp_path, schema=schema, partitioning=ds.partitioning(pa.schema({"p": pa.string()}), flavor="hive")
    )
    for condition in (pc.field("p") == "01", pc.field("p") == "1", pc.field("p").is_null(), pc.field("p") > "0"):
        rows = texts.to_table(filter=condition).sort_by("row")
        assert rows.num_rows
        assert rows == plain.to_table(filter=condition).sort_by("row")
    numbers = texts.replace_schema(pa.schema({"row": pa.int64(), "p": pa.int32()}))
    assert numbers.count_rows(filter=pc.field("p") == 1) == 2 * ROWS
    assert {*parquet_bloom.dataset(tmp_path).to_table()["p"].to_pylist()} == {"01", "1", None}


_ENDS = {
    "head": "ds.head(1)",
    "duckdb": "import duckdb; duckdb.sql('SELECT * FROM ds LIMIT 1').fetchall()",
    "batches": "batches = ds.to_batches(); next(iter(batches))",
    "polars": "import polars; polars.scan_pyarrow_dataset(ds).head(1).collect()",
    "error": "import duckdb; duckdb.sql('SELECT error(text) FROM ds').fetchall()",
}


@pytest.mark.ci
@pytest.mark.parametrize("end", _ENDS)
def test_a_program_ends_while_arrow_reads_ahead(tmp_path, end):
    """Arrow's threads call for the next batch while the interpreter ends, which aborted it."""
    for number in range(40):
        rows = range(number * 20_000, (number + 1) * 20_000)
        pq.write_table(pa.table({"id": rows, "text": [f"t{row}" for row in rows]}), tmp_path / f"{number}.parquet")
    code = f"import parquet_bloom; ds = parquet_bloom.dataset({str(tmp_path)!r}); {_ENDS[end]}"
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        assert "Fatal" not in run.stderr
        assert run.returncode == (1 if end == "error" else 0), run.stderr


def test_a_filtered_dataset_is_filtered_in_polars(lake):
    filtered = parquet_bloom.dataset(lake).filter(pc.field("id") == find_id(70))
    assert filtered.to_polars().collect()["row"].to_list() == [70]
    assert filtered.to_polars().filter(pl.col("row") > 70).collect().is_empty()


def test_rows_without_columns_are_counted(lake):
    dataset = parquet_bloom.dataset(lake)
    scan = dataset.scan(f"id = {find_id(70)}", columns=[])
    assert (scan.to_arrow().num_rows, scan.to_arrow().num_columns) == (1, 0)
    assert [(batch.num_rows, batch.num_columns) for batch in scan.to_batches()] == [(1, 0)]
    assert parquet_bloom.read_table(lake, "row >= 0", []).num_rows == FILES * ROWS
    for nothing in (dataset.scan("row < 0", columns=[]).to_arrow(), parquet_bloom.read_table(lake, "row < 0", [])):
        assert nothing.shape == (0, 0)


def test_keys_of_a_join_may_be_a_table(lake):
    dataset = parquet_bloom.dataset(lake)
    keys = [find_id(70), 5000]
    for table in (pa.table({"id": keys}), pl.DataFrame({"id": keys}), pl.Series(keys), pa.array(keys), keys):
        assert parquet_bloom.semi_join(dataset, table, on="id").to_arrow()["row"].to_pylist() == [70]


def test_arguments_that_are_none_are_refused_in_one_line(lake):
    dataset = parquet_bloom.dataset(lake)
    for call, problem in (
        (lambda: dataset.to_table(filter="id = 5"), "a filter must be a pyarrow expression, got str"),
        (lambda: dataset.filter("id = 5"), "a filter must be a pyarrow expression, got str"),
        (lambda: dataset.scan("id = 5", "id"), r"columns must be a list of names, got a string; give \['id'\]"),
        (lambda: dataset.scan("id = 5", on_error="skip"), "on_error must be 'raise' or a function"),
        (lambda: dataset.scan("id = 5", threads=0), "threads must be at least 1, got 0"),
        (lambda: parquet_bloom.dataset(lake, cache=str(lake)), "cache must be a MetadataCache or None, got str"),
        (lambda: parquet_bloom.semi_join(dataset, pa.table({"x": [1]}), "id"), "the table of keys has no column 'id'"),
        (lambda: parquet_bloom.semi_join(lake, [1], "id"), "give a dataset, as parquet_bloom.dataset returns"),
    ):
        with pytest.raises(ParquetBloomError, match=problem):
            call()


@pytest.fixture
def after_plan(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What is done after each plan, before rows are read."""
    actions: list[Callable[[], object]] = []
    make_plan = ScanSource.plan

    def plan(self: Any, *arguments: Any, **options: Any) -> Any:
        report = make_plan(self, *arguments, **options)
        for action in actions:
            action()
        return report

    monkeypatch.setattr(ScanSource, "plan", plan)
    return actions


@each_engine
def test_a_file_that_is_removed_while_it_is_read_is_named(lake, ask, after_plan):
    dataset = parquet_bloom.dataset(lake)
    after_plan.append((lake / "1.parquet").unlink)
    with pytest.raises(Exception, match=r"1\.parquet: "):
        ask(dataset, find_id(70))


@pytest.mark.parametrize("zoned", [False, True])
def test_a_file_that_is_replaced_as_polars_reads_is_read_whole(tmp_path, zoned, after_plan):
    path, other = tmp_path / "a.parquet", tmp_path / "other"
    table = pa.table({"id": random.Random(1).sample(range(10**9), 400)})
    pq.write_table(table, path, row_group_size=100, write_statistics=False)
    pq.write_table(table.take([*range(399, -1, -1)]), other, row_group_size=100, write_statistics=False)
    given = tmp_path / "zones.arrow" if zoned else None
    if zoned:
        zones.build(path, "id", given, rows_per_zone=10)
    else:
        parquet_bloom.embed(path, ["id"])
    value = table["id"][3].as_py()
    after_plan.append(lambda: other.exists() and other.replace(path))
    frame = parquet_bloom.scan_polars(path, zones=given)
    assert frame.filter(pl.col("id") == value).collect()["id"].to_list() == [value]
    assert not other.exists()


@pytest.mark.usefixtures("settled_footers")
def test_schemas_are_shared_by_files_that_are_alike_alone(tmp_path: Path) -> None:
    """A file's own metadata and types stay its own."""
    columns = {"id": pa.array([1, 2]), "text": pa.array(["a", None])}
    tables = [pa.table(columns)] * 3 + [pa.table(columns).replace_schema_metadata({"a": str(i)}) for i in range(3)]
    tables += [pa.table({**columns, "id": pa.array([1, 2], pa.int32())}), pa.table({**columns, "c": pa.array([1, 2])})]
    paths = [tmp_path / f"{number}.parquet" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path)
    files = cache_footers(LocalFiles([str(path) for path in paths], parquet_bloom.MetadataCache(), 1))
    for path, file in zip(paths, files, strict=True):
        assert file is not None
        assert arrow_schema(file).equals(pq.read_schema(path), check_metadata=True)
    assert parquet_bloom.dataset(tmp_path).schema.names == ["id", "text", "c"]


@pytest.mark.parametrize("make", [lambda folder: folder, lambda folder: [folder], lambda folder: []])
def test_no_files_are_no_result(tmp_path, make):
    (tmp_path / "lake" / "x=1").mkdir(parents=True)
    (tmp_path / "lake" / "_SUCCESS").touch()
    given = make(tmp_path / "lake")
    for read in (lambda: parquet_bloom.read_table(given, "id = 1"), lambda: parquet_bloom.dataset(given)):
        with pytest.raises(ParquetBloomError, match="no files to"):
            read()


def test_files_that_are_ruled_out_are_files(tmp_path):
    (tmp_path / "x=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x=1" / "a.parquet")
    assert parquet_bloom.read_table(tmp_path, "x = 2").num_rows == 0
    assert parquet_bloom.read_table(tmp_path, "id = 9").num_rows == 0
