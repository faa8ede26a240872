"""Test positions in files whose names are not UTF-8: what is given out names the file, and can be given back."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scans import make_locator

import parquet_bloom
from parquet_bloom.scan.scan_options import Limits
from parquet_bloom.storage.paths import as_utf8, resolve_given_path
from parquet_bloom.tables import write_positions

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")

NAMES = [b"\xff.parquet", b"a b%41\xc3.parquet", b"\xed\xa0\x80.parquet", "fine \u00e9.parquet".encode(), b"z.parquet"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a file of two rows under each of the names, in a folder whose name is not UTF-8 either."""
    folder = tmp_path / os.fsdecode(b"lake\xfe")
    folder.mkdir()
    for number, name in enumerate(NAMES):
        pq.write_table(pa.table({"k": [2 * number, 2 * number + 1], "n": [0, 1]}), tmp_path / "t")
        os.rename(tmp_path / "t", os.path.join(os.fsencode(folder), name))
    return folder


@pytest.mark.parametrize("indexed", [False, True], ids=["files", "index"])
def test_positions_name_files_that_can_be_given_back(lake: Path, tmp_path: Path, indexed: bool) -> None:
    index = None
    if indexed:
        index = tmp_path / "index"
        with parquet_bloom.LakeIndex.create(index, ["k"], lake=lake) as made:
            made.append()
    dataset = parquet_bloom.dataset(lake, index=index)
    everything = list(range(2 * len(NAMES)))
    for located in (
        dataset.locate("k", everything),
        dataset.locate("k", [*everything, *range(1000, 4000)]),
        dataset.locate(["k", "n"], [(key, key % 2) for key in everything]),
        pa.Table.from_batches(dataset.locate_batches("k", everything)),
    ):
        assert sorted(located["row"].to_pylist()) == [0] * 5 + [1] * 5
        for position in located.to_pylist():
            path, key = position["path"], position["key"]
            key = key if isinstance(key, int) else key["k"]
            assert path.encode().startswith(b"file:///")
            assert parquet_bloom.dataset(path).take([position["row"]])["k"].to_pylist() == [key]
            assert parquet_bloom.dataset([path]).files == [os.path.join(lake, os.fsdecode(NAMES[key // 2]))]
    write_positions(dataset.locate("k", [0, 9]), tmp_path / "positions.parquet")
    write_positions(dataset.locate("k", [0, 9]), tmp_path / "deletes.parquet", "iceberg")
    assert pq.read_table(tmp_path / "positions.parquet")["path"].to_pylist() == [
        as_utf8(os.path.join(lake, os.fsdecode(name))) for name in (NAMES[4], NAMES[0])
    ]
    assert pq.read_table(tmp_path / "deletes.parquet").num_rows == 2


def test_readable_names_stay_as_they_are(lake: Path) -> None:
    plain = lake.parent / "plain"
    plain.mkdir()
    (lake / "z.parquet").rename(plain / "z.parquet")
    os.rename(os.path.join(os.fsencode(lake), NAMES[0]), os.path.join(os.fsencode(plain), NAMES[0]))
    dataset = parquet_bloom.dataset(plain)
    assert sorted(dataset.locate("k", [9, 0])["path"].to_pylist()) == [
        str(plain / "z.parquet"),
        f"file://{plain}/%FF.parquet",
    ]


def test_many_chunks_of_keys_are_in_the_order_of_files(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake)
    located = make_locator(lake, "k", Limits(chunk_keys=3)).read_table(list(range(10)))
    paths = [resolve_given_path(path) for path in located["path"].to_pylist()]
    assert paths == [path for path in dataset.files for _ in range(2)]
    assert located["row"].to_pylist() == [0, 1] * 5


def test_any_name_is_given_back() -> None:
    rng = random.Random(36)
    for _ in range(500):
        name = bytes(rng.choice(b"a%\xff\xc3\xa9\x80/ :?#\n\\=4") for _ in range(rng.randint(1, 8)))
        path = "/" + os.fsdecode(name).lstrip("/")
        text = as_utf8(path)
        text.encode()
        if text != path:
            assert resolve_given_path(text) == os.path.abspath(path)
