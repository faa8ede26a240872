"""Read back what a page of `parquet_bloom.page` draws."""

from __future__ import annotations

import json
import re
from typing import Any

_REPORT = re.compile(r'<script type="application/json" id="report">(.*?)</script>', re.DOTALL)


def read_report(page: str) -> dict[str, Any]:
    """Return the report in a page."""
    (text,) = _REPORT.findall(page)
    return json.loads(text)


def without_report(page: str) -> str:
    """Return all of a page but the report, which is the same in all pages."""
    return _REPORT.sub("", page)


def drawn_states(page: str) -> list[str]:
    """Return the state of each cell."""
    drawn = read_report(page)["map"]
    return [drawn["states"][drawn["kinds"][kind][0]]["key"] for kind in drawn["kind_of"]]


def drawn_texts(page: str, state: str) -> list[str]:
    """Return the description of each cell in a state."""
    drawn = read_report(page)["map"]
    return [
        drawn["kinds"][kind][1]
        for kind, found in zip(drawn["kind_of"], drawn_states(page), strict=True)
        if found == state
    ]


def drawn_paths(page: str) -> list[str]:
    """Return the path of each group."""
    drawn = read_report(page)["map"]
    return [drawn["folders"][folder] + name + drawn["ending"] for folder, name, _ in drawn["groups"]]


def all_texts(value: Any) -> list[str]:
    """Return all texts in a report."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in all_texts(item)]
