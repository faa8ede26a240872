"""Random queries of random lakes through each engine: on a dataset of this package they find what plain pyarrow's do.

`dataset_campaign.py` beside this file asks tens of thousands.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.random_cases.dataset_engines import ENGINES, Tally, hunt
from support.random_cases.hunting import seeds
from support.scale import scaled


@pytest.mark.default
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_find_the_same_rows(engine: str, tmp_path: Path) -> None:
    total = Tally()
    for seed in seeds(scaled(2)):
        total.add(hunt(seed, engine, tmp_path, 20))
    print(engine, total)
    assert not total.wrong, total.wrong[0]
    assert total.read < total.groups  # else nothing was shown
    assert total.matched
