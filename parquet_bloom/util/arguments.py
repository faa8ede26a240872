"""What callers give: checks that say in one line what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ParquetBloomError


def require_integer(name: str, number: object, least: int) -> None:
    """Raise ParquetBloomError unless an argument is an integer of at least so much."""
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ParquetBloomError(f"{name} must be an integer of at least {least}, got {number!r}")


def require_threads(threads: object) -> None:
    """Raise ParquetBloomError unless a number of threads is one, or None."""
    if threads is not None:
        require_integer("threads", threads, 1)


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ParquetBloomError unless an argument is one of some texts."""
    if value not in choices:
        raise ParquetBloomError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
