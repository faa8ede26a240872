"""Checks of JSON values in an index's files: types, and ranges of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import shortened

MOST_HASH = 2**64 - 1


def text(value: object) -> str:
    """Return a string that can be a name; raise ValueError for anything else."""
    if not isinstance(value, str) or (not value.isascii() and _has_surrogates(value)):
        raise ValueError(f"{_shown(value)} is not a text")
    return value


def _has_surrogates(value: str) -> bool:
    try:
        value.encode("utf-8", "surrogateescape")  # which names of files may have
    except UnicodeEncodeError:
        return True
    return False


def number(value: object, most: int = MOST_HASH, least: int = 0) -> int:
    """Return an integer from `least` to `most`; raise ValueError for anything else."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{_shown(value)} is not an integer from {least} to {most}")
    return value


def one_of(value: object, allowed: Sequence[str]) -> str:
    """Return one of some strings; raise ValueError for anything else."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{_shown(value)} is not one of {', '.join(allowed)}")
    return value


def items(value: object) -> list[object]:
    """Return a list; raise ValueError for anything else."""
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list")
    return value


def fields(value: object) -> Mapping[str, object]:
    """Return a JSON object; raise ValueError for anything else."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not an object")
    return value


def require_names(fields: Mapping[str, object], needed: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Raise ValueError unless an object has all the needed fields, and besides them only optional ones."""
    missing = [name for name in needed if name not in fields]
    if missing:
        raise ValueError(f"'{missing[0]}' is missing")
    unknown = sorted(set(fields).difference(needed, optional))
    if unknown:
        raise ValueError(f"'{shortened(unknown[0])}' is not known to this version")


def _shown(value: object) -> str:
    """Return a short representation of a value: Python does not format numbers of thousands of digits."""
    if isinstance(value, int) and not -(1 << 128) < value < 1 << 128:
        return "a number beyond all sizes"
    return shortened(repr(value), 60)
