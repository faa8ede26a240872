"""Properties of Delta tables."""

from __future__ import annotations

from collections.abc import Mapping

APPEND_ONLY = "delta.appendOnly"
CHANGE_FEED = "delta.enableChangeDataFeed"
DELETION_VECTORS = "delta.enableDeletionVectors"
IN_COMMIT_TIMES = "delta.enableInCommitTimestamps"
ROW_TRACKING = "delta.enableRowTracking"


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """Return whether a boolean property is true, in whatever case, as Delta's own writers read it."""
    return properties.get(name, "").lower() == "true"
