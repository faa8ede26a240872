"""Which of two releases of a library is the older one."""

from __future__ import annotations

import re


def is_older(version: str, oldest: str) -> bool:
    """Return whether a version, such as `2.55.1` or `0.7.9rc1`, is of an older release than another, such as `2.56`."""
    needed = [int(part) for part in oldest.split(".")]
    return [int(part) for part in re.findall(r"\d+", version)[: len(needed)]] < needed
