"""Test reading by several threads: all rows, within a bound on memory, stoppable, with every byte counted."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import MetadataCache
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.scan.row_reader import RowReader

FILES, ROWS, GROUP = 4, 24_000, 6_000


def make_table(seed: int, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 2**40, rows)
    return pa.table(
        {
            "file": pa.array(np.full(rows, seed, np.int32)),
            "row": np.arange(rows),
            "number": numbers,
            "text": pa.array([f"text {number % 1000}" for number in numbers.tolist()]),
            "struct": pa.array([{"a": i, "b": str(i % 7)} for i in range(rows)]),
            "list": pa.array([[i, i + 1] if i % 3 else None for i in range(rows)]),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of four row groups each, every second one with a page index."""
    folder = tmp_path_factory.mktemp("lake")
    for seed in range(FILES):
        path = folder / f"{seed}.parquet"
        pq.write_table(
            make_table(seed), path, row_group_size=GROUP, write_page_index=seed % 2 == 0, data_page_size=8192
        )
        parquet_bloom.embed(path, ["number"])
    return folder


def scan(path: Any, where: Any = None, columns: Any = None, **options: Any) -> Any:
    return parquet_bloom.dataset(path, cache=MetadataCache()).scan(where, columns, **options)


def sort(table: pa.Table) -> pa.Table:
    return table.sort_by([("file", "ascending"), ("row", "ascending")])


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "parquet_bloom"]


# ------------------------------------------------------------------------------------------------------- all rows


PREDICATES = {
    None: None,
    "row < 20": pc.field("row") < 20,
    "row >= 100 AND row < 20000": (pc.field("row") >= 100) & (pc.field("row") < 20_000),
    "text = 'text 77' OR file = 3": (pc.field("text") == "text 77") | (pc.field("file") == 3),
    "number > 1000000000000": pc.field("number") > 10**12,
    "number = 5": pc.field("number") == 5,
}


@pytest.mark.ci
@pytest.mark.parametrize("max_bytes", [None, 160_000])  # the smaller one decodes each row group in windows
@pytest.mark.parametrize("where", PREDICATES, ids=str)
def test_all_forms_give_the_rows_of_pyarrow(lake: Path, where: str | None, max_bytes: int | None) -> None:
    expected = sort(pads.dataset(lake).to_table(filter=PREDICATES[where]))
    asked = scan(lake, where, threads=3)
    assert asked.to_arrow(max_bytes=max_bytes).equals(expected)
    batches = list(asked.to_batches(1000, max_bytes=max_bytes))
    assert pa.Table.from_batches(batches, expected.schema).equals(expected)
    assert all(0 < batch.num_rows <= 1000 for batch in batches)
    unordered = pa.Table.from_batches(asked.to_batches(in_order=False, max_bytes=max_bytes), expected.schema)
    assert sort(unordered).equals(expected)
    assert asked.count_rows() == expected.num_rows
    assert asked._reader.count_rows(max_bytes=max_bytes) == expected.num_rows
    with asked.to_reader(max_bytes=max_bytes) as stream:
        assert stream.read_all().equals(expected)


def read_where(path: Path, columns: list[str], expression: pc.Expression | None) -> pa.Table:
    rows = pq.ParquetFile(path).read(columns=columns)
    if expression is None:
        return rows
    whole = pq.read_table(path)
    return rows.take(whole.append_column("at", pa.array(range(len(whole)))).filter(expression)["at"])


@pytest.mark.ci
@pytest.mark.parametrize("max_bytes", [None, 120_000])
def test_projections_are_those_of_pyarrow(lake: Path, max_bytes: int | None) -> None:
    for columns in (["number"], ["text", "row"], ["struct.b"], ["list", "file"]):
        for where in (None, "row >= 100 AND row < 20000", "text = 'text 77' OR file = 3", "number = 5"):
            expression = PREDICATES[where]
            expected = pa.concat_tables(read_where(path, columns, expression) for path in sorted(lake.iterdir()))
            found = scan(lake, where, columns).to_arrow(max_bytes=max_bytes)
            assert found.equals(expected), (columns, where)


def test_columns_of_one_name_are_read_in_windows(tmp_path: Path) -> None:
    numbers = pa.array(range(100_000))
    table = pa.Table.from_arrays([numbers, numbers, pc.negate(numbers)], ["key", "same", "same"])
    pq.write_table(table, tmp_path / "a.parquet")
    report = parquet_bloom.prune(tmp_path, "key >= 50000")
    found = RowReader(report).read_table(max_bytes=100_000)
    assert found.equals(table.slice(50_000))


def test_stripes_of_orc_are_read_by_several_threads(tmp_path: Path) -> None:
    tables = [make_table(seed).drop_columns(["file"]) for seed in range(2)]
    for seed, table in enumerate(tables):
        po.write_table(table, tmp_path / f"{seed}.orc", stripe_size=80_000, batch_size=1024)
    assert po.ORCFile(tmp_path / "0.orc").nstripes > 3
    expected = pa.concat_tables(tables)
    for max_bytes in (None, 1):
        asked = scan(tmp_path, threads=4)
        assert asked.to_arrow(max_bytes=max_bytes).equals(expected)
        assert asked.plan().data_bytes_read > 0
        some = scan(tmp_path, "row < 10000", threads=4)
        wanted = expected.filter(pc.field("row") < 10_000)
        assert some.to_arrow(max_bytes=max_bytes).equals(wanted)
        assert some.count_rows() == wanted.num_rows


def test_threads_that_share_a_file_read_it_alike(tmp_path: Path) -> None:
    table = make_table(1, 40_000)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    for _ in range(3):
        assert scan(tmp_path, threads=8).to_arrow().equals(table)


# --------------------------------------------------------------------------------------------------------- memory


@pytest.mark.ci
@pytest.mark.parametrize("where", [None, "a >= 0", "b < 100"])
def test_a_row_group_larger_than_the_bound_is_decoded_in_windows(tmp_path: Path, where: str | None) -> None:
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, 2**60, 2_000_000) for name in "abc"})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=len(table), use_dictionary=False)
    size, max_bytes = table.nbytes, 8 * 2**20
    del table
    before, most, num_rows = pa.total_allocated_bytes(), 0, 0
    for batch in scan(tmp_path, where, threads=2).to_batches(max_bytes=max_bytes):
        num_rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert num_rows == (0 if where == "b < 100" else 2_000_000)
    assert most < 2 * max_bytes < size / 2


def test_a_consumer_that_does_not_take_stops_the_readers(lake: Path) -> None:
    stream = scan(lake, threads=4).to_reader(max_bytes=800_000)
    stream.read_next_batch()
    for thread in own_threads():
        thread.join(300)
    assert not own_threads()
    stream.close()


# --------------------------------------------------------------------------------------------------- end and errors


def test_closing_ends_the_threads_and_closes_the_files(lake: Path) -> None:
    opened = set(os.listdir("/proc/self/fd"))
    batches = scan(lake, threads=4).to_batches(100)
    next(batches)
    assert own_threads()
    batches.close()
    assert not own_threads()
    assert set(os.listdir("/proc/self/fd")) <= opened
    stream = scan(lake, threads=4).to_reader(100)
    stream.read_next_batch()
    del stream
    assert not own_threads()


def test_an_interrupt_of_the_consumer_ends_the_threads(lake: Path) -> None:
    is_planned = False

    def interrupt(done: int, total: int) -> None:
        if is_planned:
            raise KeyboardInterrupt

    asked = scan(lake, threads=4, progress=interrupt)
    asked.plan()
    is_planned = True
    with pytest.raises(KeyboardInterrupt), closing(asked.to_batches()) as batches:
        list(batches)
    assert not own_threads()


@pytest.fixture
def broken(lake: Path, tmp_path: Path) -> Path:
    """The files, of which the second has a row group whose pages are overwritten."""
    for path in lake.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "1.parquet"
    column = pq.read_metadata(path).row_group(2).column(3)
    data = bytearray(path.read_bytes())
    start = column.dictionary_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("max_bytes", [None, 160_000])
@pytest.mark.parametrize("in_order", [True, False])
def test_an_error_is_raised_once_with_the_file(broken: Path, in_order: bool, max_bytes: int | None) -> None:
    batches = scan(broken, threads=4).to_batches(in_order=in_order, max_bytes=max_bytes)
    with pytest.raises(ParquetBloomError, match=r"1\.parquet.*cannot be read"):
        list(batches)
    assert not own_threads()


def test_a_file_that_cannot_be_read_is_left_out_on_request(broken: Path) -> None:
    errors: list[ParquetBloomError] = []
    progress: list[tuple[int, int]] = []
    asked = scan(broken, threads=4, on_error=errors.append, progress=lambda done, total: progress.append((done, total)))
    asked.plan()
    progress.clear()
    found = asked.to_arrow()
    assert len(errors) == 1
    assert str(broken / "1.parquet") in str(errors[0])
    assert progress == [(done, FILES) for done in range(1, FILES + 1)]
    others = found.filter(pc.field("file") != 1)
    assert others.equals(pads.dataset([broken / f"{seed}.parquet" for seed in (0, 2, 3)]).to_table())


@pytest.mark.parametrize("where", ["text = 'text 77'", "text > 'text 5'", "text = 'text 77' OR row < 9"])
def test_as_many_rows_are_counted_as_are_given_of_a_broken_file(broken: Path, where: str) -> None:
    errors: list[ParquetBloomError] = []
    asked = scan(broken, where, threads=4, on_error=errors.append)
    num_rows = asked.to_arrow().num_rows
    assert len(errors) == 1
    assert asked.count_rows() == num_rows
    assert len(errors) == 2


def test_progress_is_of_each_file_that_has_no_rows_for_a_wrong_predicate(lake: Path) -> None:
    errors: list[ParquetBloomError] = []
    calls: list[tuple[int, int]] = []
    asked = scan(lake, "row = 'x'", on_error=errors.append, progress=lambda *call: calls.append(call))
    asked.plan()
    calls.clear()
    assert asked.to_arrow().num_rows == 0
    assert len(errors) == FILES
    assert calls == [(done, FILES) for done in range(1, FILES + 1)]


def test_a_file_that_was_replaced_is_read_whole_and_once(lake: Path, tmp_path: Path) -> None:
    for path in lake.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    asked = scan(tmp_path, "row < 20", threads=4)
    asked.plan()
    replacement = make_table(9, 5000)
    os.unlink(tmp_path / "1.parquet")
    pq.write_table(replacement, tmp_path / "1.parquet", row_group_size=1000)
    expected = pads.dataset(tmp_path).to_table(filter=pc.field("row") < 20)
    assert sort(asked.to_arrow()).equals(sort(expected))
    assert asked.count_rows() == expected.num_rows


# --------------------------------------------------------------------------------------------------------- counting


def bytes_of_process() -> int:
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


@pytest.mark.ci
@pytest.mark.parametrize("where", [None, "row < 20", "text = 'text 77'"])
@pytest.mark.parametrize("max_bytes", [None, 160_000])
def test_every_byte_that_is_read_is_counted(lake: Path, where: str | None, max_bytes: int | None) -> None:
    scan(lake, where).to_arrow(max_bytes=max_bytes)  # modules are imported
    asked = parquet_bloom.dataset(lake, cache=None).scan(where, threads=3)
    before = bytes_of_process()
    asked.to_arrow(max_bytes=max_bytes)
    plan = asked.plan()
    counted, read = plan.bytes_read + plan.data_bytes_read, bytes_of_process() - before
    assert counted == pytest.approx(read, rel=0.05, abs=20_000)
    assert plan.data_requests > 0
    assert " to plan; " in str(plan)
    assert " of data" in asked.explain()


def test_every_byte_of_objects_is_counted(s3: Any, lake: Path) -> None:
    for path in lake.iterdir():
        s3.put(f"lake/{path.name}", path.read_bytes())
    asked = parquet_bloom.dataset(s3.url("lake/"), storage_options=s3.storage_options, cache=MetadataCache()).scan()
    asked.plan()
    assert asked.to_arrow().num_rows == FILES * ROWS
    size = sum(path.stat().st_size for path in lake.iterdir())
    plan = asked.plan()
    assert 0.8 * size < plan.data_bytes_read <= size  # without filters and footers, and without reading twice


def test_rows_without_a_predicate_are_counted_from_footers(lake: Path) -> None:
    asked = scan(lake)
    assert asked.count_rows() == FILES * ROWS
    assert asked.plan().data_requests == 0


def test_counting_reads_the_columns_of_the_predicate_alone(lake: Path) -> None:
    asked = scan(lake, "number > 1000000000000")
    count = asked.count_rows()
    chunks = [
        pq.read_metadata(path).row_group(group).column(2).total_compressed_size
        for path in lake.iterdir()
        for group in range(ROWS // GROUP)
    ]
    assert 0 < count < FILES * ROWS
    assert asked.plan().data_bytes_read <= 1.4 * sum(chunks)
