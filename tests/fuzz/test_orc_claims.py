"""Texts of compressed ORC files that claim to be longer than what they are in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.oracle import orc_runs

sys.path.insert(0, str(Path(__file__).resolve().parent))

import small_orc
from scratch import as_file

import parquet_bloom
from parquet_bloom.errors import MalformedOrcError
from parquet_bloom.orc.orc_tail import LENGTH


@pytest.mark.parametrize("codec", [codec for codec in small_orc.CODECS if codec != "none"])
@pytest.mark.parametrize("length", [8, 1 << 25, 1 << 50])
def test_texts_that_cannot_be(codec: str, length: int) -> None:
    streams = small_orc.base().stripes[0].streams
    (number,) = (number for number, (kind, _, _) in enumerate(streams) if kind == LENGTH)
    lengths = orc_runs.direct([length] * small_orc.STRIPE, 64)

    def change(location: small_orc.Target, plain: bytes) -> bytes:
        return lengths if location == ("stream", 0, number) else plain

    with as_file(small_orc.together(codec, change), ".orc") as path:
        if length == 8:
            rows = parquet_bloom.read_table(path, "s >= ''").to_pylist()
            assert rows == small_orc.table().to_pylist()
            return
        problem = r"in stripe 0 the lengths in column 2 are invalid: they add up to \d+ bytes, the texts have 192$"
        with pytest.raises(MalformedOrcError, match=problem):
            parquet_bloom.read_table(path, "s >= ''")
