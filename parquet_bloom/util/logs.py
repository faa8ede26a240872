"""What is logged: one line a record and no secret, whatever the names of files and columns in it hold."""

from __future__ import annotations

import logging
import traceback

from ..errors import printable
from ..redaction import without_secrets


def logger(name: str) -> logging.Logger:
    """The logger of a name, whose records hold no secrets, and of which line breaks and control characters are escaped.

    A name with a line break in it would otherwise write a second line, which nobody can tell from a record.
    """
    found = logging.getLogger(name)
    if _on_one_line not in found.filters:
        found.addFilter(_on_one_line)
    return found


def _on_one_line(record: logging.LogRecord) -> bool:
    record.msg, record.args = printable(record.getMessage()), ()
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        error = without_secrets(error)
        record.exc_info = type(error), error, error.__traceback__
        lines = "".join(traceback.format_exception(error)).splitlines()
        record.exc_text = "\n".join(map(printable, lines))  # formatters take it instead of making it
    if record.stack_info:
        record.stack_info = "\n".join(map(printable, record.stack_info.splitlines()))
    return True
