"""Loggers whose records are one line each and hold no secrets, whatever the names of files and columns contain."""

from __future__ import annotations

import logging
import reprlib
import traceback
from collections.abc import Sequence

from ..errors import printable
from ..redaction import without_secrets


def logger(name: str) -> logging.Logger:
    """Return a logger that hides secrets, and escapes line breaks and control characters in its records.

    A file name with a line break could otherwise forge a record.
    """
    result = logging.getLogger(name)
    if _sanitize not in result.filters:
        result.addFilter(_sanitize)
    return result


def _sanitize(record: logging.LogRecord) -> bool:
    record.msg, record.args = printable(record.getMessage()), ()
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        error = without_secrets(error)
        record.exc_info = type(error), error, error.__traceback__
        lines = "".join(traceback.format_exception(error)).splitlines()
        record.exc_text = "\n".join(map(printable, lines))  # formatters use it instead of formatting exc_info
    if record.stack_info:
        record.stack_info = "\n".join(map(printable, record.stack_info.splitlines()))
    return True


_MAX_ITEMS = 5
_MAX_SHOWN = 1000  # characters of a value
_LONG_INT = 10_000  # bits; Python does not format integers of thousands of digits


class _SafeRepr(reprlib.Repr):
    """`repr` that does not fail: Arrow's scalars of far years have none, nor have the objects of some libraries."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _MAX_SHOWN

    def repr_int(self, value: int, level: int) -> str:
        return super().repr_int(value, level) if value.bit_length() < _LONG_INT else "this int"


_safe_repr = _SafeRepr()


def show_value(value: object, max_length: int) -> str:
    """Show any value of a caller in one line."""
    text, kind = " ".join(_safe_repr.repr(value).split()), type(value).__name__
    if text.startswith(f"<{kind} instance at 0x"):  # what `reprlib` makes of a value that has no text
        text = f"this {kind}"
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


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
