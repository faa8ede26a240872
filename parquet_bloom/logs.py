"""What is logged: one line a record, whatever the names of files and columns in it hold."""

from __future__ import annotations

import logging

from .errors import printable


def logger(name: str) -> logging.Logger:
    """The logger of a name, of whose records line breaks and control characters are escaped.

    A name with a line break in it would otherwise write a second line, which nobody can tell from a record.
    """
    found = logging.getLogger(name)
    if _on_one_line not in found.filters:
        found.addFilter(_on_one_line)
    return found


def _on_one_line(record: logging.LogRecord) -> bool:
    record.msg, record.args = printable(record.getMessage()), ()
    return True
