"""Random tables as in `test_no_row_lost`, with every column chunk read by pages, however small it is."""

from property.test_no_row_lost import Tally, hunt
from support.one_by_one import read_local_files_one_by_one

from parquet_bloom.file.pages.page_lookup import PAGE_COSTS
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch
from parquet_bloom.scan.scan_options import LIMITS

FIRST_SEED = 1_000_000  # others than that test's
TABLES = 10


def test_no_row_is_lost_by_pages(tmp_path, monkeypatch):
    """By rows taken out of pages wherever that can be."""
    read_local_files_one_by_one(monkeypatch)
    monkeypatch.setitem(vars(LIMITS), "few_of", 1)
    monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 0)
    monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 10.0)
    decoded = []
    original = RowGroupBatch.read

    def noted(self, names, rows):
        result = original(self, names, rows)
        decoded.extend(result)
        return result

    monkeypatch.setattr(RowGroupBatch, "read", noted)
    tally = Tally()
    for seed in range(FIRST_SEED, FIRST_SEED + 2 * TABLES):
        hunt(seed, tmp_path, tally)
    assert len(decoded) > TABLES  # that all were read whole would prove nothing
