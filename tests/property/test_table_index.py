"""Random Delta and Iceberg tables show the same rows with an index, whichever version that was made at."""

from pathlib import Path

import pytest
from support.random_cases.hunting import seeds
from support.scale import scaled

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from support.random_cases.table_index_hunt import IndexTally, hunt_index


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_of_random_tables_with_an_index(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", 0)
    tally = IndexTally()
    for seed in seeds(scaled(3)):
        hunt_index(kind, seed, tmp_path / f"{kind}-{seed}", tally, 15)
    assert not tally.wrong
    assert tally.queries > 30
    assert tally.appended
    assert tally.ruled_out
