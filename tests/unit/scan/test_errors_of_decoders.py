"""What goes wrong inside the decoder of pages reaches the caller: it never sends the scan another way.

A defect that is answered by reading in another way shows as slowness, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import (
    BrokenFilterError,
    ConcurrentChangeError,
    MalformedFooterError,
    StorageError,
    TruncatedFileError,
    UnreadableColumnError,
)
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch as Decoder

pytestmark = pytest.mark.ci

ROWS = 5_000  # of a file
KEY = 7_001

DEFECTS: list[Exception] = [
    ValueError("injected"),
    TypeError("injected"),
    KeyError("injected"),
    IndexError("injected"),
    AttributeError("injected"),
    RuntimeError("injected"),
    AssertionError("injected"),
    MemoryError("injected"),
    OSError(5, "injected"),
    pa.ArrowInvalid("injected"),
    pa.ArrowNotImplementedError("injected"),
]
OF_FILES: list[Exception] = [
    BrokenFilterError("injected"),
    MalformedFooterError("injected"),
    TruncatedFileError("injected"),
    UnreadableColumnError("injected"),
    ConcurrentChangeError("injected"),
    StorageError("injected"),
]

Ask = Callable[[Any, list[str]], Any]  # of a dataset and its files

WAYS: dict[str, tuple[str, Ask]] = {
    "read_table": ("search", lambda lake, files: parquet_bloom.read_table(files, f"id = {KEY}")),
    "read_table of IN": ("search", lambda lake, files: parquet_bloom.read_table(files, f"id IN ({KEY}, 3)")),
    "read_table, columns": ("read", lambda lake, files: parquet_bloom.read_table(files, f"id = {KEY}", ["text"])),
    "read_table, lists": ("search", lambda lake, files: parquet_bloom.read_table(files, _CONTAINS)),
    "scan": ("search", lambda lake, files: lake.scan(f"id = {KEY}").to_arrow()),
    "scan, columns": ("read", lambda lake, files: lake.scan(f"id = {KEY}").to_arrow()),
    "scan, lists": ("search", lambda lake, files: lake.scan(_CONTAINS).to_arrow()),
    "scan, the rest of a predicate": ("read", lambda lake, files: lake.scan(f"id = {KEY} AND n > 1").to_arrow()),
    "to_batches": ("search", lambda lake, files: list(lake.scan(f"id = {KEY}").to_batches())),
    "to_batches, columns": ("read", lambda lake, files: list(lake.scan(f"id = {KEY}").to_batches())),
    "count_rows": ("search", lambda lake, files: lake.scan(f"id = {KEY}").count_rows()),
    "count_rows, the rest": ("read", lambda lake, files: lake.scan(f"id = {KEY} AND n > 1").count_rows()),
    "count_rows, lists": ("search", lambda lake, files: lake.scan(_CONTAINS).count_rows()),
    "get": ("search", lambda lake, files: lake.get("id", KEY)),
    "get, columns": ("read", lambda lake, files: lake.get("id", [KEY, 3])),
    "locate": ("search", lambda lake, files: lake.locate("id", [KEY, 3])),
    "semi_join": ("search", lambda lake, files: parquet_bloom.semi_join(lake, [KEY, 3], "id").to_arrow()),
}
_CONTAINS = f"array_contains(list, {KEY})"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("lake")
    paths = []
    for number in range(2):
        ids = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table({"id": ids, "text": [f"t{i}" for i in ids], "n": ids, "list": [[i, i + 1] for i in ids]})
        paths.append(str(folder / f"{number}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=1000)
    return paths


@pytest.mark.parametrize("way", WAYS)
def test_defects_reach_the_caller(way: str, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = [type(error).__name__ for error in DEFECTS if _ask_with(error, way, files, monkeypatch) is not error]
    assert not hidden, f"read in another way after {', '.join(hidden)}"


@pytest.mark.parametrize("way", WAYS)
def test_errors_of_files_reach_the_caller_or_lose_no_row(
    way: str, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _ask_with(None, way, files, monkeypatch)
    for error in OF_FILES:
        found = _ask_with(error, way, files, monkeypatch)
        assert found is error or found == expected


def _ask_with(error: Exception | None, way: str, files: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what comes of a way whose decoder raises an error: the answer, or the error if it was raised."""
    entry, ask = WAYS[way]
    lake, calls = parquet_bloom.dataset(files), []
    decode = getattr(Decoder, entry)

    def fail(*given: Any, **options: Any) -> Any:
        calls.append(entry)
        if error is not None:
            raise error
        return decode(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Decoder, entry, fail)
        try:
            return ask(lake, files)
        except Exception as raised:
            if error is None or not _caused_by(raised, error):
                raise
            return error
        finally:
            assert calls, f"{way} does not pass {entry}"


def _caused_by(raised: BaseException | None, error: BaseException) -> bool:
    """Say whether an error is another one, or was raised because of it."""
    while raised is not None and raised is not error:
        raised = raised.__cause__ or raised.__context__
    return raised is error
