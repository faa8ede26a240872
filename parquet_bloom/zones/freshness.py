"""Whether the files of a zone index are still what they were when their zones were made."""

from __future__ import annotations

from ..file.identity import NO_TOKEN, UNREADABLE, compare_contents, read_version_tokens
from ..file.reader import BloomFile
from ..metadata.footer import Leaf
from ..storage import Entry
from ..util.threads import in_order
from .collect import find_column
from .index import ZoneIndex

_READ_AT_A_TIME = 4

CURRENT, CHANGED, GONE, UNKNOWN = "current", "changed", "gone", "unknown"


def states(index: ZoneIndex, filesystem: object | None = None) -> list[str]:
    """For each file of an index over Parquet files: CURRENT, CHANGED, GONE, or UNKNOWN where it cannot be looked at.

    A file whose size, times or etag are others is read: filters may have been embedded, or it was copied.
    """
    files = index.files or []
    entries = [Entry(file.path) for file in files]
    found = read_version_tokens(entries, filesystem)

    def judge(number: int) -> str:
        file, now = files[number], found[number]
        if now is None:
            return GONE
        if now == UNREADABLE:
            return UNKNOWN
        if now == (file.size, file.stamp) and file.stamp != NO_TOKEN:
            return CURRENT

        def leaves(opened: BloomFile) -> list[Leaf]:
            return [find_column(opened, index.column or "")]

        same, _ = compare_contents(entries[number], filesystem, file.footer, file.data, leaves)
        return CURRENT if same else CHANGED

    with in_order(judge, range(len(files)), _READ_AT_A_TIME) as judged:
        return list(judged)
