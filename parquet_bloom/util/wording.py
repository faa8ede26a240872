"""Format numbers and lists for messages."""

from __future__ import annotations

from collections.abc import Sequence

_MAX_ITEMS = 5


class ShownText(str):
    """Text that interactive Python and notebooks show line by line, without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def count(number: int, unit: str) -> str:
    """Format a number of things: "1 file", "3,000 files"."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def count_of(number: int, total: int, unit: str) -> str:
    """Format a part of a number of things: "3 of 1,000 files"."""
    return f"{number:,} of {total:,} {unit}{'' if total == 1 else 's'}"


def format_bytes(num_bytes: int) -> str:
    """Format a number of bytes in units of 1,000: "12 MB"."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:,.{1 if num_bytes < 10 * factor else 0}f} {unit}"
    return count(num_bytes, "byte")


def truncate_list(items: Sequence[str]) -> list[str]:
    """Return the first items of a long list, with the number of the others as the last item."""
    more = len(items) - _MAX_ITEMS
    return [*items[:_MAX_ITEMS], f"{more:,} more"] if more > 1 else list(items)
