"""Check whether the files of a zone index are unchanged since it was built."""

from __future__ import annotations

from ..file.identity import NO_TOKEN, UNREADABLE, compare_contents, read_version_tokens
from ..file.reader import BloomFile
from ..metadata.footer import Leaf
from ..storage import Entry
from ..util.threads import in_order
from .collect import find_column
from .index import ZoneIndex

_CONCURRENT_READS = 4

CURRENT, CHANGED, GONE, UNKNOWN = "current", "changed", "gone", "unknown"


def file_states(index: ZoneIndex, filesystem: object | None = None) -> list[str]:
    """Return for each file of an index over Parquet files: CURRENT, CHANGED, GONE, or UNKNOWN if it cannot be read.

    A file whose size, times or etag changed is read: it may have been copied, or filters may have been embedded.
    """
    files = index.files or []
    entries = [Entry(file.path) for file in files]
    tokens = read_version_tokens(entries, filesystem)

    def find_state(number: int) -> str:
        file, token = files[number], tokens[number]
        if token is None:
            return GONE
        if token == UNREADABLE:
            return UNKNOWN
        if token == (file.size, file.stamp) and file.stamp != NO_TOKEN:
            return CURRENT

        def leaves(opened: BloomFile) -> list[Leaf]:
            return [find_column(opened, index.column or "")]

        same, _ = compare_contents(entries[number], filesystem, file.footer, file.data, leaves)
        return CURRENT if same else CHANGED

    with in_order(find_state, range(len(files)), _CONCURRENT_READS) as results:
        return list(results)
