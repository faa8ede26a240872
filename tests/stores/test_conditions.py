"""Behaviour of each store on conditional requests: as measured, so that a release that differs shows.

`docs/how-to/object-stores.md` has the table; `python tests/stores/conditions.py` prints it anew.
"""

from __future__ import annotations

import re

import pytest
import servers
from conditions import HEEDED, IGNORED, KEPT, NOT_OFFERED, measure

MEASURED = {
    "radosgw": {
        "PUT If-Match": "always 412",
        "CopyObject x-amz-copy-source-if-match": IGNORED,
        "UploadPartCopy x-amz-copy-source-if-match": IGNORED,
        "CompleteMultipartUpload If-Match": IGNORED,
        "tags, multipart upload": "lost: the answer is empty",
    },
    "swift": {
        "PUT If-None-Match: *": "always 501",
        "PUT If-Match": "always 501",
        "PUT If-Match, etag without quotes": "always 501",
        "CompleteMultipartUpload If-Match": "always 412",
        "tags, PUT": "refused: NotImplemented",
        "tags, multipart upload": "refused: NotImplemented",
    },
    "s3rver": {
        "GET of the last bytes": "other bytes",
        "GET If-Match": IGNORED,
        "HEAD If-Match": IGNORED,
        "PUT If-None-Match: *": IGNORED,
        "PUT If-Match": IGNORED,
        "PUT If-Match, etag without quotes": IGNORED,
        "CopyObject x-amz-copy-source-if-match": IGNORED,
        "UploadPartCopy x-amz-copy-source-if-match": "always 501",
        "CompleteMultipartUpload If-Match": IGNORED,
        "tags, PUT": "lost",
        "tags, multipart upload": "lost",
    },
    "moto-plain": dict.fromkeys(
        (
            "CopyObject x-amz-copy-source-if-match",
            "UploadPartCopy x-amz-copy-source-if-match",
            "CompleteMultipartUpload If-Match",
        ),
        IGNORED,
    ),
    "moto": {},
    "moto-lax": dict.fromkeys(
        (
            "GET If-Match",
            "HEAD If-Match",
            "PUT If-None-Match: *",
            "PUT If-Match",
            "PUT If-Match, etag without quotes",
            "CopyObject x-amz-copy-source-if-match",
            "UploadPartCopy x-amz-copy-source-if-match",
            "CompleteMultipartUpload If-Match",
        ),
        IGNORED,
    ),
}
"""Where a store differs from what S3 promises."""

S3 = (
    {"GET of the last bytes": "as asked"}
    | dict.fromkeys(MEASURED["moto-lax"], HEEDED)
    | dict.fromkeys(
        (
            "tags, PUT",
            "tags, multipart upload",
            "metadata and content type, PUT",
            "metadata and content type, multipart upload",
        ),
        KEPT,
    )
)
AZURE = {
    "GET If-Match": HEEDED,
    "HEAD If-Match": NOT_OFFERED,
    "PUT If-None-Match: *": "heeded (409)",
    "PUT If-Match": HEEDED,
}


@pytest.mark.parametrize("store", servers.cases(*MEASURED), indirect=True)
def test_s3(store: servers.Store) -> None:
    assert measure(store) == S3 | MEASURED[store.name], store.version()


@pytest.mark.parametrize("store", servers.cases("azurite"), indirect=True)
def test_azure(store: servers.Store) -> None:
    assert measure(store) == AZURE, store.version()


def test_the_documented_table_is_the_measured_one() -> None:
    text = (servers.ROOT / "docs" / "how-to" / "object-stores.md").read_text()
    section = text.split("## Which store keeps which promise\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = {cells[0]: cells[1:] for cells in (re.split(r"\s*\|\s*", line.strip("| ")) for line in lines[2:])}
    tables = {name: S3 | MEASURED[name] for name in ("radosgw", "swift", "s3rver", "moto-plain")}
    tables["azurite"] = AZURE
    for row in S3:
        assert rows[row] == [table.get(row, NOT_OFFERED) for table in tables.values()], row
