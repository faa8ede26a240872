"""Which filters must answer "maybe" to everything, by who wrote them.

Each fault was seen in files of that writer, or read in its source; filters of a writer that is not known are not
trusted.
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
    """What is known to be wrong with the filters of a column, or cannot be known to be right; None if they are good.

    Parameters
    ----------
    kind : of their stream.
    bloom_encoding : as the stripe's footer says.
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
            return "ORC's C++ library reads behind the texts of char columns, and hashes that"
        if not _is_correct_cpp(tail.software_version):
            return f"ORC's C++ library {tail.software_version or 'before 1.6.12'} hashes in a way of its own"
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
    """Whether a release of the C++ library hashes as the format says: from 1.6.12 on, but for 1.7.0."""
    found = _VERSION.match(version or "")
    if not found:
        return False
    number = tuple(map(int, found.groups()))
    final = found.end() == len(version or "")
    if number[:2] == (1, 6):
        return number > (1, 6, 12) or (number == (1, 6, 12) and final)
    return number > (1, 7, 1) or (number == (1, 7, 1) and final)


def find_timezone_fault(tail: Tail, leaf: OrcLeaf, timezone: str, known: PruningStatistics) -> str | None:
    """Why a row group's filter cannot be asked for timestamps; None if it can.

    Wall clocks before 1900 are read by other rules than they were written, but in UTC; those of Java's writers also
    where programs do not agree on zones.
    """
    if leaf.kind != "TIMESTAMP" or timezone in UTC_ZONES or known.has_values is False:
        return None
    if tail.writer != "c++":
        first, last = (edge * 1_000_000 for edge in SETTLED_MS)
        bounds = known.low, known.high
        if all(isinstance(bound, int) and first <= bound <= last for bound in bounds):
            return None
        return f"it may hold timestamps before 2000 or after 2037, written in the zone '{timezone or 'unknown'}'"
    if isinstance(known.low, int) and known.low >= ZONED_MS * 1_000_000:
        return None
    return f"it may hold timestamps before 1900, written in the zone '{timezone or 'unknown'}'"
