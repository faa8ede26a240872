"""Random scans of random lakes give plain pyarrow's rows in every way; `scan_campaign.py` does many more."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.random_cases.hunting import seeds
from support.random_cases.scan_hunt import ScanTally, hunt
from support.scale import scaled


@pytest.mark.default
def test_random_scans(tmp_path: Path) -> None:
    total = ScanTally()
    for seed in seeds(scaled(3)):
        total.add(hunt(seed, tmp_path, 15))
    print(total)
    assert not total.wrong, total.wrong[0]
    assert total.matched > total.scans / 4  # else nothing was shown
    assert total.refused < total.scans / 20
