"""Filters probed by single blocks answer as filters read in full: over sizes, fills, keys, files and file systems."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow.fs as fs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.oracle import oracle
from support.servers.counted import CountedFileSystem
from support.writers import peers, surgery

import parquet_bloom
from parquet_bloom.file.probe_file import probe, probe_hashes
from parquet_bloom.hashing import coerce as coerce_module

pytestmark = pytest.mark.default

SYSTEMS = ["local", "immutable", "subtree", "fsspec memory", "fsspec counted"]


@st.composite
def bitsets(draw: st.DrawFn) -> bytes:
    """A bitset of 1 to 600 blocks (up to 128 are read whole), perhaps with a few bytes too many, from empty to full."""
    num_bytes = 32 * draw(st.sampled_from([1, 2, 3, 7, 64, 127, 128, 129, 200, 600])) + draw(st.sampled_from([0, 0, 5]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["empty", "one bit", "sparse", "half", "dense", "full"]))
    if kind == "half":
        return rng.bytes(num_bytes)
    if kind == "full":
        return b"\xff" * num_bytes
    bits = np.zeros(8 * num_bytes, np.uint8)
    if kind != "empty":
        count = {"one bit": 1, "sparse": num_bytes // 16, "dense": 6 * num_bytes}[kind]
        bits[rng.integers(0, len(bits), count)] = 1
    return np.packbits(bits).tobytes()


def system_of(name: str, path: Path) -> tuple[str, Any]:
    if name == "subtree":
        return path.name, fs.SubTreeFileSystem(str(path.parent), fs.LocalFileSystem())
    if name == "fsspec memory":
        memory = fsspec.filesystem("memory")
        memory.pipe_file(str(path), path.read_bytes())
        return str(path), memory
    if name == "fsspec counted":
        return str(path), CountedFileSystem({str(path): path.read_bytes()})
    return str(path), None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("probes")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    files=st.lists(st.tuples(st.lists(bitsets(), min_size=1, max_size=5), st.booleans()), min_size=1, max_size=3),
    hashes=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=70),
    system=st.sampled_from(SYSTEMS),
)
def test_every_answer_is_the_whole_filters(folder, files, hashes, system) -> None:
    keys = np.array(hashes, np.uint64)
    every = [bitset for stored, _ in files for bitset in stored]
    with ExitStack() as stack:
        chunks = []
        for number, (stored, lengths) in enumerate(files):
            path = surgery.with_bitsets(folder / f"{number}.parquet", stored, lengths=lengths)
            file = stack.enter_context(parquet_bloom.open(*system_of(system, path)))
            chunks += list(file.chunks())
        order = np.random.default_rng(len(hashes)).permutation(len(chunks))
        matches, problems = probe_hashes([chunks[i] for i in order], keys, immutable=system == "immutable")
        assert matches.shape == (len(chunks), len(hashes))
        for i, answers, problem in zip(order, matches.tolist(), problems, strict=True):
            bitset = every[i]
            if not any(bitset):
                assert problem == "no bit is set, yet the column chunk may hold values"
                assert all(answers)
                continue
            assert problem is None
            complete = oracle.OracleFilter(len(bitset) // 32 * 32, bitset[: len(bitset) // 32 * 32])
            assert answers == [complete.check_hash(key) for key in hashes]


@pytest.mark.ci
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.spark if "spark" in name else ()) for name in peers.NAMES]
)
def test_filters_of_every_writer(name, system, peer_file) -> None:
    """Values that are there, and the other row groups' values: what the filter says of each, and no other answer."""
    written = peer_file(name)
    certain = 0
    with parquet_bloom.open(*system_of(system, written.path)) as file:
        for column in file.columns:
            chunks = list(file.chunks(columns=[column]))
            if not chunks:
                continue
            every = [written.values(row_group, column) for row_group in range(peers.GROUPS)]
            values = [value for rows in every for value in rows[:15] if value is not None]
            result = probe(chunks, values, immutable=system == "immutable")
            assert result.chunks == tuple(chunks)
            for chunk, answers in zip(chunks, result.maybe.tolist(), strict=True):
                if not chunk.column_type.hashable:
                    assert all(answers)
                    continue
                assert not chunk.problem
                for value, maybe in zip(values, answers, strict=True):
                    queried = coerce_module.coerce([value], chunk.column_type)
                    hashes = coerce_module.hash_all(queried.values, chunk.column_type)[0]
                    expected = queried.unknown is not None or bool(chunk.filter.check_hashes(hashes).any())
                    assert maybe == expected, (column, chunk.row_group, value)
                    certain += not maybe
    assert certain > 50
