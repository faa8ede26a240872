"""Loggers whose records are one line each and hold no secrets, whatever the names of files and columns contain."""

from __future__ import annotations

import logging
import traceback

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
