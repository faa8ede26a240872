"""Filters that must answer "maybe" to everything, because of known bugs of their writers.

Each bug was observed in files of that writer, or found in its source; filters of unknown writers are not trusted.
"""

from __future__ import annotations

import re

from ...predicate.statistics import PruningStatistics
from ..metadata.schema import OrcLeaf
from ..metadata.statistics import SETTLED_MS, ZONED_MS
from ..metadata.stripes import BLOOM_FILTER
from ..metadata.tail import Tail

_TRUSTED_WRITERS = ("java", "c++", "presto", "trino")
_HASHED_KINDS = (
    *("BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "VARCHAR", "CHAR", "BINARY", "DATE"),
    *("TIMESTAMP", "TIMESTAMP_INSTANT", "DECIMAL"),
)
UTC_ZONES = ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z")
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


def find_fault(tail: Tail, leaf: OrcLeaf, kind: int, bloom_encoding: int) -> str | None:
    """Return why the filters of a column are wrong, or cannot be known to be right; None if they can be trusted.

    Parameters
    ----------
    kind : kind of their stream.
    bloom_encoding : encoding of the filters in the stripe's footer.
    """
    if tail.writer not in _TRUSTED_WRITERS:
        return f"what the writer '{tail.writer}' hashes is not known"
    if leaf.kind == "BOOLEAN":
        return "filters of booleans hold nothing, or something else"
    if leaf.kind not in _HASHED_KINDS:
        return f"what is hashed of {leaf.column_type.name} is not known"
    if tail.writer == "c++":
        if leaf.kind == "BYTE":
            return "ORC's C++ library hashes other numbers than the tinyint column holds"
        if leaf.kind == "CHAR":
            return "ORC's C++ library hashes bytes beyond the end of the texts of char columns"
        if not _is_correct_cpp(tail.software_version):
            return f"ORC's C++ library {tail.software_version or 'before 1.6.12'} hashes in a non-standard way"
    if leaf.kind == "TIMESTAMP" or leaf.kind == "TIMESTAMP_INSTANT":
        if kind == BLOOM_FILTER:
            return "filters of this kind hold timestamps of an unknown zone"
        if bloom_encoding != 1:
            return "the file does not say how the filter's timestamps are encoded"
    if kind == BLOOM_FILTER:
        if leaf.kind == "DECIMAL" or tail.writer != "java":
            return "what filters of this kind hold is not known"
        if leaf.kind in ("STRING", "VARCHAR", "CHAR") and tail.writer_version < 3:
            return "the filter's texts are encoded in a way that only its writer knew"
    return None


def _is_correct_cpp(version: str | None) -> bool:
    """Return whether a release of the C++ library hashes as specified: from 1.6.12 on, except 1.7.0."""
    match = _VERSION.match(version or "")
    if not match:
        return False
    number = tuple(map(int, match.groups()))
    final = match.end() == len(version or "")
    if number[:2] == (1, 6):
        return number > (1, 6, 12) or (number == (1, 6, 12) and final)
    return number > (1, 7, 1) or (number == (1, 7, 1) and final)


def find_timezone_fault(tail: Tail, leaf: OrcLeaf, timezone: str, statistics: PruningStatistics) -> str | None:
    """Return why a row group's filter cannot be probed for timestamps; None if it can.

    Wall clock times before 1900 are read by other rules than they were written, except in UTC; those of Java's writers
    also where programs disagree about time zones.
    """
    if leaf.kind != "TIMESTAMP" or timezone in UTC_ZONES or statistics.has_values is False:
        return None
    if tail.writer != "c++":
        first, last = (edge * 1_000_000 for edge in SETTLED_MS)
        bounds = statistics.low, statistics.high
        if all(isinstance(bound, int) and first <= bound <= last for bound in bounds):
            return None
        return f"it may hold timestamps before 2000 or after 2037, written in the zone '{timezone or 'unknown'}'"
    if isinstance(statistics.low, int) and statistics.low >= ZONED_MS * 1_000_000:
        return None
    return f"it may hold timestamps before 1900, written in the zone '{timezone or 'unknown'}'"
