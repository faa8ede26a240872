"""The same random tables as in `test_no_row_lost`, with every column chunk read by pages, however small it is."""

from property.test_no_row_lost import Tally, hunt

from parquet_bloom.file import pages

FIRST_SEED = 1_000_000  # others than that test's
TABLES = 40


def test_no_row_is_lost_by_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "SMALL_BYTES", 0)
    monkeypatch.setattr(pages, "WORTHWHILE", 10.0)
    decoded = []
    original = pages.RowGroupPages.read

    def noted(self, names, rows):
        found = original(self, names, rows)
        decoded.extend(found)
        return found

    monkeypatch.setattr(pages.RowGroupPages, "read", noted)
    tally = Tally()
    for seed in range(FIRST_SEED, FIRST_SEED + TABLES):
        hunt(seed, tmp_path, tally)
    assert len(decoded) > TABLES  # that all were read whole would prove nothing
