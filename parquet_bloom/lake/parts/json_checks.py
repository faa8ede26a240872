"""Checks of JSON values in an index's files: types, and ranges of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import shortened

MOST_HASH = 2**64 - 1


def text(told: Any) -> str:
    """Return a string that can be a name; raise ValueError for anything else."""
    if not isinstance(told, str) or (not told.isascii() and _has_surrogates(told)):
        raise ValueError(f"{_shown(told)} is no text")
    return told


def _has_surrogates(told: str) -> bool:
    try:
        told.encode("utf-8", "surrogateescape")  # which names of files may have
    except UnicodeEncodeError:
        return True
    return False


def number(told: Any, most: int = MOST_HASH, least: int = 0) -> int:
    """Return an integer from `least` to `most`; raise ValueError for anything else."""
    if type(told) is not int or not least <= told <= most:
        raise ValueError(f"{_shown(told)} is no number from {least} to {most}")
    return told


def one_of(told: Any, known: Sequence[str]) -> str:
    """Return one of some strings; raise ValueError for anything else."""
    if not isinstance(told, str) or told not in known:
        raise ValueError(f"{_shown(told)} is none of {', '.join(known)}")
    return told


def items(told: Any) -> list[Any]:
    """Return a list; raise ValueError for anything else."""
    if not isinstance(told, list):
        raise ValueError(f"{_shown(told)} is no list")
    return told


def fields(told: Any) -> Mapping[str, Any]:
    """Return a JSON object; raise ValueError for anything else."""
    if not isinstance(told, dict):
        raise ValueError(f"{_shown(told)} is no object")
    return told


def _shown(told: Any) -> str:
    """Return a short representation of a value: Python does not format numbers of thousands of digits."""
    if isinstance(told, int) and not -(1 << 128) < told < 1 << 128:
        return "a number beyond all sizes"
    return shortened(repr(told), 60)
