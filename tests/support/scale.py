"""How many cases a run takes: numbers that follow Hypothesis's profile, and cases that only longer tiers have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hypothesis
import pytest

PROFILES = {"default": 25, "ci": 75, "long": 1_000}  # examples of a property


def scaled(count: float) -> int:
    """Scale a number of cases, given for the default profile, to that of this run."""
    return round(count * hypothesis.settings.default.max_examples / PROFILES["default"])


def sampled(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Mark the cases of a test: by default one in so many runs, in CI three times as many, in the long tier all."""
    made = []
    for number, case in enumerate(cases):
        is_ci = number % max(one_in // 3, 1) == 0
        marks = () if number % one_in == 0 else pytest.mark.ci if is_ci else pytest.mark.long
        made.append(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks))
    return made
