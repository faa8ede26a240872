"""Lengths in ORC files: those of every writer are accepted, invalid ones are rejected before values are read."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest
from support.oracle import orc_runs
from support.writers.orc_files import Parts, fields_of, message_of, with_fields

import parquet_bloom
from parquet_bloom import orc
from parquet_bloom.core.decode.orc_lengths import sum_lengths
from parquet_bloom.errors import MalformedOrcError

MOST = (1 << 62) - 1


def checked(stream: bytes, second: bool, numbers: list[int]) -> None:
    assert orc_runs.lengths_in(stream, second) == numbers
    assert sum_lengths(stream, second, MOST) == sum(numbers)
    assert sum_lengths(stream, second, sum(numbers)) == sum(numbers)
    if sum(numbers):
        with pytest.raises(ValueError, match="more than"):
            sum_lengths(stream, second, sum(numbers) - 1)
    for cut in range(1, len(stream)):
        try:
            expected = sum(orc_runs.lengths_in(stream[:cut], second))
        except orc_runs.Refused:
            with pytest.raises(ValueError, match=r"^a run of lengths is cut off$"):
                sum_lengths(stream[:cut], second, MOST)
        else:
            assert sum_lengths(stream[:cut], second, MOST) == expected


def test_runs_of_the_specification() -> None:
    """The examples that it gives."""
    checked(bytes([0x61, 0x00, 0x07]), False, [7] * 100)
    checked(bytes([0x61, 0xFF, 0x64]), False, list(range(100, 0, -1)))
    checked(bytes([0xFB, 0x02, 0x03, 0x04, 0x07, 0xB]), False, [2, 3, 4, 7, 11])
    checked(bytes([0x0A, 0x27, 0x10]), True, [10_000] * 5)
    checked(bytes([0x5E, 0x03, 0x5C, 0xA1, 0xAB, 0x1E, 0xDE, 0xAD, 0xBE, 0xEF]), True, [23713, 43806, 57005, 48879])
    patched = bytes([0x8E, 0x13, 0x2B, 0x21, 0x07, 0xD0, 0x1E, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3C, 0x46, 0x50, 0x5A])
    patched += bytes([0x64, 0x6E, 0x78, 0x82, 0x8C, 0x96, 0xA0, 0xAA, 0xB4, 0xBE, 0xFC, 0xE8])
    numbers = [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)]
    checked(patched, True, numbers)
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    checked(bytes([0xC6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46]), True, primes)


@pytest.mark.parametrize("width", orc_runs.WIDTHS)
def test_every_width(width: int) -> None:
    rng = random.Random(width)
    numbers = [rng.getrandbits(min(width, 53)) for _ in range(rng.randrange(1, 40))]
    checked(orc_runs.direct(numbers, width), True, numbers)
    if width < 54:
        changes = [rng.getrandbits(min(width, 40)) for _ in range(9)]
        stream = orc_runs.delta(3, 5, changes, width)
        if width > 1:  # a width of 0 takes its place
            checked(stream, True, orc_runs.lengths_in(stream, True))
            checked(stream + stream, True, orc_runs.lengths_in(stream + stream, True))


def test_negative_lengths_are_refused() -> None:
    for second, stream in (
        *((False, orc_runs.first_run(3, -1, 5)), (False, orc_runs.first_literals([1, 2**63]))),
        *((False, orc_runs.first_literals([2**64 - 1, 1])), (True, orc_runs.short_repeat(2**64 - 1, 8, 3))),
        *((True, orc_runs.direct([1, 2**63, 2], 64)), (True, orc_runs.delta(3, -2, [0, 0], 0))),
        (True, orc_runs.delta(30, -2, [10, 10, 10], 4)),
        (True, orc_runs.patched([0, 1, 2], 2, -1, 1, 2, 1, [(1, 1)])),
    ):
        with pytest.raises(ValueError, match="a length is negative"):
            sum_lengths(stream, second, MOST)


def test_patches_that_there_are_not() -> None:
    stream = bytearray(orc_runs.patched([0, 1, 2], 2, 1, 1, 2, 1, [(1, 1)]))
    for location, value in ((3, stream[3] & 0xE0), (2, 31)):
        with pytest.raises(ValueError, match="patched in no way"):
            sum_lengths(bytes(stream[:location]) + bytes([value]) + bytes(stream[location + 1 :]), True, MOST)


@pytest.mark.ci
@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "zstd"])
@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_files_of_a_writer(version: str, compression: str, threshold: float, tmp_path: Path) -> None:

    def table(seed: int) -> pa.Table:
        """Texts, bytes and lists whose lengths take each kind of run."""
        rng = random.Random(seed)
        lengths = [
            *[7] * 600, *range(600), *range(600, 0, -1), *(rng.randrange(20) for _ in range(600)),
            *(rng.choice([3, 4, 5, 6, 5000]) if rng.random() < 0.05 else rng.randrange(8) for _ in range(1200)),
            *(rng.choice([0, 70_000]) for _ in range(20)), *(int(rng.expovariate(0.01)) for _ in range(600)),
        ]  # fmt: skip
        texts = [None if rng.random() < 0.03 else "x" * length for length in lengths]
        return pa.table(
            {
                "s": texts,
                "b": pa.array([text and text.encode() for text in texts], pa.binary()),
                "few": [f"{length % 50:0{length % 7 + 1}}" for length in lengths],
                "l": [None if text is None else list(range(min(len(text), 90))) for text in texts],
                "m": pa.array([[("k" * (n % 9), n)] * (n % 4) for n in lengths], pa.map_(pa.string(), pa.int64())),
                "d": [{"t": text} for text in texts],
            }
        )

    rows = table(1)
    path = tmp_path / "a.orc"
    options: dict[str, Any] = {"compression": compression, "dictionary_key_size_threshold": threshold}
    po.write_table(rows, path, file_version=version, stripe_size=1 << 20, **options)
    assert parquet_bloom.read_table(path, "s IS NULL OR few <> ''").equals(po.read_table(path))
    with orc.open(path) as file:
        assert len(file.leaves) == 7
        for stripe in range(len(file.stripes)):
            file.require_readable(stripe, None)
            file.require_readable(stripe, ["s"])


CRASHES = """
import sys
import parquet_bloom
from parquet_bloom import orc
from parquet_bloom.errors import ParquetBloomError
def tried(what):
    try:
        print("ok" if what() else "bad")
    except ParquetBloomError as error:
        print(error)
where, *paths = sys.argv[1:]
for path in paths:
    tried(lambda: orc.verify(path, data=True).ok)
    tried(lambda: bool(parquet_bloom.advise(path)))
    tried(lambda: parquet_bloom.read_table(path, where).num_rows >= 0)
    tried(lambda: parquet_bloom.read_table(path, "k >= 0", columns=["k"]).num_rows == 100)
"""


def changed(path: Path, column: int, lengths: bytes) -> None:
    """Put other bytes in the place of a column's lengths, in a file of one stripe that is not compressed."""
    parts = Parts(path.read_bytes())
    fields = fields_of(parts.footer)
    (at,) = (at for at, (number, _, _) in enumerate(fields) if number == 3)
    stream_fields = {number: int(value) for number, _, value in fields_of(bytes(fields[at][2]))}  # type: ignore[arg-type]
    start = stream_fields.get(1, 3)
    before = parts.before[start : start + stream_fields[2] + stream_fields[3]]
    footer, out, location = [], b"", 0
    for field in fields_of(parts.before[start + stream_fields[2] + stream_fields[3] :][: stream_fields[4]]):
        if field[0] == 1:
            declared = {number: int(value) for number, _, value in fields_of(bytes(field[2]))}  # type: ignore[arg-type]
            stream = before[location : location + declared.get(3, 0)]
            location += declared.get(3, 0)
            if (declared.get(1, 0), declared.get(2, 0)) == (2, column):
                stream = lengths
            out += stream
            field = 1, 2, with_fields(bytes(field[2]), {3: len(stream)})  # type: ignore[arg-type]
        footer.append(field)
    packed = message_of(footer)
    fields[at] = 3, 2, with_fields(
        bytes(fields[at][2]), {3: stream_fields[3] + len(out) - len(before), 4: len(packed)}  # type: ignore[arg-type]
    )  # fmt: skip
    end = start + stream_fields[2] + stream_fields[3] + stream_fields[4]
    parts.before = parts.before[:start] + out + packed + parts.before[end:]
    path.write_bytes(parts.together(message_of(fields)))


@pytest.mark.ci
@pytest.mark.parametrize("what", ["s", "l"])
def test_lengths_that_cannot_be(what: str, tmp_path: Path) -> None:
    """ORC's C++ library reads memory that is not its own by some of these, or wants more than there is."""
    values = [f"v{number:03}" if what == "s" else [number] for number in range(100)]
    rows, paths = pa.table({"k": range(100), what: values}), [tmp_path / f"{number}.orc" for number in range(4)]
    wrong = [-(2**40), 2**40 + 3] * 50, [-1] * 100, [2**61] * 100, [2**33] * 100
    for path, lengths in zip(paths, wrong, strict=True):
        po.write_table(rows, path, compression="uncompressed", dictionary_key_size_threshold=0)
        changed(path, 2, b"".join(orc_runs.direct([4 if what == "s" else 1] * 50, 4) for _ in range(2)))
        assert po.read_table(path).equals(rows)  # it is put together as it should be
        changed(path, 2, orc_runs.direct([length & 2**64 - 1 for length in lengths], 64))
    where = "s = 'v005'" if what == "s" else "l.item = 5"
    command = [sys.executable, "-c", CRASHES, where, *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    printed = done.stdout.splitlines()
    for number, path in enumerate(paths):
        refused = f"{path}: in stripe 0 the lengths in column 2 cannot be read: a length is negative, or "
        assert printed[4 * number + 2].startswith(refused), printed
        assert printed[4 * number + 3] == "ok"
        with orc.open(path) as file, pytest.raises(MalformedOrcError, match="the lengths in column 2 cannot be read"):
            file.require_readable(0, [what])


def test_items_that_cannot_be(tmp_path: Path) -> None:
    """ORC's C++ library makes room for all of them: 16 GiB."""
    path = tmp_path / "a.orc"
    po.write_table(
        pa.table({"k": range(100), "l": [[number] for number in range(100)]}), path, compression="uncompressed"
    )
    changed(path, 2, orc_runs.direct([20_000_000] * 100, 32))
    with pytest.raises(MalformedOrcError, match=r"the lengths in column 2 are invalid: 2000000000 items in \d+ bytes$"):
        parquet_bloom.read_table(path, "k >= 0")


def test_many_items_of_few_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    values = pa.array(np.zeros(9_000_000, np.bool_))
    lists = pa.ListArray.from_arrays(pa.array([0, 4_500_000, 9_000_000], pa.int32()), values)
    po.write_table(pa.table({"k": [1, 2], "l": lists}), path, compression="zlib")
    assert path.stat().st_size < 10_000
    assert parquet_bloom.read_table(path, "k >= 0").num_rows == 2
