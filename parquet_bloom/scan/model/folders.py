"""Folders `name=value` of partitions, as Hive and Spark name them."""

from __future__ import annotations

from collections.abc import Callable

_NULL = "__HIVE_DEFAULT_PARTITION__"


def parse_folder(folder: str, decode: Callable[[str], str]) -> tuple[str, str | None] | None:
    """Return the column and the value that the name of a folder gives; None if it is not that of a partition.

    Parameters
    ----------
    folder : its name, without the path.
    decode : decodes name and value, in which special characters are percent-encoded; engines differ in how.
    """
    name, separator, value = folder.partition("=")
    if not separator:
        return None
    return decode(name), None if value == _NULL else decode(value)
