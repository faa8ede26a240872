"""The lake index: from a value to the files that may hold it, among a million, by one small read.

`parts` is the stored form, `files` are the data files, `manifest`, `segment` and `snapshot` read an index, `build`,
`check`, `select` and `advise` build on these, and `index` is the public class on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .advise import GranularityAdvice, IndexAdvice, advise_index
    from .index import LakeIndex
    from .reports import Answers, AppendReport, Candidate, CheckReport, CompactReport, IndexSnapshot, IndexStats

__all__ = [
    "Answers",
    "AppendReport",
    "Candidate",
    "CheckReport",
    "CompactReport",
    "GranularityAdvice",
    "IndexAdvice",
    "IndexSnapshot",
    "IndexStats",
    "LakeIndex",
    "advise_index",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "Answers": ".reports",
    "AppendReport": ".reports",
    "Candidate": ".reports",
    "CheckReport": ".reports",
    "CompactReport": ".reports",
    "GranularityAdvice": ".advise",
    "IndexAdvice": ".advise",
    "IndexSnapshot": ".reports",
    "IndexStats": ".reports",
    "LakeIndex": ".index",
    "advise_index": ".advise",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
