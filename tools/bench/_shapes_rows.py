"""What is compared of the rows that engines give: in any order, and of any of Arrow's types of texts and lists."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any


def describe(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the number of rows, a digest of their values and names, and the first of them as text."""
    texts = sorted(repr(sorted(row.items())) for row in rows)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return {"count": len(texts), "digest": digest, "some": texts[:1]}
