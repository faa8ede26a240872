"""Conditions of requests that a store heeds, and object attributes that it keeps: measured, as a table.

python tests/stores/conditions.py       # the table in Markdown, of the stores that are installed
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import servers

PART = 5 << 20
WRONG = '"00000000000000000000000000000000"'

HEEDED = "heeded"
IGNORED = "ignored"
KEPT = "kept"
NOT_OFFERED = "–"


def measure(store: servers.Store) -> dict[str, str]:
    """Ask a store everything, each with a condition that holds and one that does not."""
    return _measure_azure(store) if store.scheme == "az" else _Measurement(store).table()


def verdict(holds: int, fails: int) -> str:
    """Say what a store makes of a condition, by its answers where it holds and where it does not; 200 is success."""
    if fails == 200:
        return IGNORED if holds == 200 else f"ignored where it fails, {holds} where it holds"
    if holds == 200:
        return HEEDED if fails == 412 else f"heeded ({fails})"
    return f"always {holds}" if holds == fails else f"always refused ({holds} where it holds, {fails} where not)"


class _Measurement:
    """Questions to a store of S3's protocol, in a bucket of its own."""

    def __init__(self, store: servers.Store) -> None:
        self.store, self.client = store, store.client
        self.bucket = store.create_bucket()
        self.keys = 0

    def table(self) -> dict[str, str]:
        small, large = self.new(b"x" * 100), self.new(b"x" * (PART + 100))
        etag = self.etag(small)
        return {
            "GET of the last bytes": self.suffix(),
            "GET If-Match": self.both(lambda value: self.client.get_object(**small, IfMatch=value), etag),
            "HEAD If-Match": self.both(lambda value: self.client.head_object(**small, IfMatch=value), etag),
            "PUT If-None-Match: *": verdict(self.put_if_absent(False), self.put_if_absent(True)),
            "PUT If-Match": self.both(
                lambda value: self.client.put_object(**small, Body=b"x" * 100, IfMatch=value), etag
            ),
            "PUT If-Match, etag without quotes": self.both(
                lambda value: self.client.put_object(**small, Body=b"x" * 100, IfMatch=value.strip('"')), etag
            ),
            "CopyObject x-amz-copy-source-if-match": self.both(lambda value: self.copy(small, value), etag),
            "UploadPartCopy x-amz-copy-source-if-match": self.both(
                lambda value: self.copy_part(large, value), self.etag(large)
            ),
            "CompleteMultipartUpload If-Match": verdict(self.complete(large, True), self.complete(large, False)),
            "tags, PUT": self.tags(multipart=False),
            "tags, multipart upload": self.tags(multipart=True),
            "metadata and content type, PUT": self.metadata(multipart=False),
            "metadata and content type, multipart upload": self.metadata(multipart=True),
        }

    def new(self, data: bytes | None = None) -> dict[str, str]:
        """Name a new object, and write it."""
        self.keys += 1
        target = {"Bucket": self.bucket, "Key": f"object {self.keys}"}
        if data is not None:
            self.client.put_object(**target, Body=data)
        return target

    def etag(self, target: dict[str, str]) -> str:
        return str(self.client.head_object(**target)["ETag"])

    def both(self, ask: Callable[[str], Any], etag: str) -> str:
        return verdict(status(lambda: ask(etag)), status(lambda: ask(WRONG)))

    def suffix(self) -> str:
        target = self.new(b"first and last")
        end = self.client.get_object(**target, Range="bytes=-4")["Body"].read()
        return "as asked" if end == b"last" else "other bytes"

    def put_if_absent(self, present: bool) -> int:
        target = self.new(b"x" if present else None)
        return status(lambda: self.client.put_object(**target, Body=b"y", IfNoneMatch="*"))

    def copy(self, source: dict[str, str], etag: str) -> None:
        self.client.copy_object(**self.new(), CopySource=source, CopySourceIfMatch=etag)

    def copy_part(self, source: dict[str, str], etag: str) -> None:
        target = self.new()
        upload = self.client.create_multipart_upload(**target)["UploadId"]
        try:
            span = {"CopySourceRange": f"bytes=0-{PART - 1}", "CopySourceIfMatch": etag}
            self.client.upload_part_copy(**target, UploadId=upload, PartNumber=1, CopySource=source, **span)
        finally:
            with suppress(Exception):
                self.client.abort_multipart_upload(**target, UploadId=upload)

    def complete(self, target: dict[str, str], right: bool) -> int:
        upload, parts = self.begin_upload(target)
        condition = self.etag(target) if right else WRONG
        answer = status(
            lambda: self.client.complete_multipart_upload(
                **target, UploadId=upload, MultipartUpload=parts, IfMatch=condition
            )
        )
        if answer != 200:
            with suppress(Exception):
                self.client.abort_multipart_upload(**target, UploadId=upload)
        return answer

    def begin_upload(self, target: dict[str, str], **attributes: Any) -> tuple[str, dict[str, Any]]:
        upload = self.client.create_multipart_upload(**target, **attributes)["UploadId"]
        etag = self.client.upload_part(**target, UploadId=upload, PartNumber=1, Body=b"z" * 100)["ETag"]
        return upload, {"Parts": [{"PartNumber": 1, "ETag": etag}]}

    def write(self, multipart: bool, **attributes: Any) -> dict[str, str]:
        target = self.new()
        if not multipart:
            self.client.put_object(**target, Body=b"z", **attributes)
            return target
        upload, parts = self.begin_upload(target, **attributes)
        self.client.complete_multipart_upload(**target, UploadId=upload, MultipartUpload=parts)
        return target

    def tags(self, multipart: bool) -> str:
        target: dict[str, str] = {}
        try:
            target = self.write(multipart, Tagging="a=b")
            answer = self.client.get_object_tagging(**target)
        except self.client.exceptions.ClientError as error:
            where = "reading them" if target else "refused"
            return f"{where}: {_code(error)}"
        if "TagSet" not in answer:
            return "lost: the answer is empty"
        return KEPT if answer["TagSet"] == [{"Key": "a", "Value": "b"}] else "lost"

    def metadata(self, multipart: bool) -> str:
        target = self.write(multipart, Metadata={"owner": "lake"}, ContentType="application/vnd.apache.parquet")
        head = self.client.head_object(**target)
        lost = [] if head["Metadata"].get("owner") == "lake" else ["metadata"]
        if head["ContentType"] != "application/vnd.apache.parquet":
            lost.append("content type")
        return f"{' and '.join(lost)} lost" if lost else KEPT


def _measure_azure(store: servers.Store) -> dict[str, str]:
    """Measure as far as Azure's protocol and the client allow."""
    import obstore
    from obstore.store import from_url

    options = store.options()
    client = {"allow_http": options.pop("allow_http")}
    bucket: Any = from_url(f"az://{store.create_bucket()}", config=options, client_options=client)
    bucket.put("object", b"x")
    etag = bucket.head("object")["e_tag"]

    def both(ask: Callable[[str], Any], right: str) -> str:
        return verdict(status(lambda: ask(right)), status(lambda: ask('"0x8D0000000000000"')))

    def put(key: str) -> int:
        return status(lambda: bucket.put(key, b"y", mode="create"))

    return {
        "GET If-Match": both(lambda value: obstore.get(bucket, "object", options={"if_match": value}), etag),
        "HEAD If-Match": NOT_OFFERED,
        "PUT If-None-Match: *": verdict(put("new"), put("object")),
        "PUT If-Match": both(lambda value: bucket.put("object", b"y", mode={"e_tag": value}), etag),
    }


def status(ask: Callable[[], Any]) -> int:
    """Return the status of the answer to a request; 200 for any success."""
    try:
        ask()
    except Exception as error:
        kind = type(error).__name__
        if kind in ("AlreadyExistsError", "PreconditionError"):  # obstore's
            return 412 if kind == "PreconditionError" else 409
        answer = getattr(error, "response", None)
        if not isinstance(answer, dict):
            raise
        return int(answer["ResponseMetadata"]["HTTPStatusCode"])
    return 200


def _code(error: Any) -> str:
    return str(error.response["Error"]["Code"])


def markdown(tables: dict[str, dict[str, str]]) -> str:
    """Lay out what was measured, a column for each store."""
    rows = list(dict.fromkeys(row for table in tables.values() for row in table))
    lines = [["", *tables], ["---"] * (1 + len(tables))]
    lines += [[row, *(table.get(row, NOT_OFFERED) for table in tables.values())] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print the table of every store that is installed."""
    tables = {}
    for name, kind in servers.STORES.items():
        try:
            with (
                tempfile.TemporaryDirectory() as folder,
                servers.running(name, lambda: Path(tempfile.mkdtemp(dir=folder))) as store,
            ):
                tables[kind.version()] = measure(store)
        except servers.NotInstalled as error:
            print(f"{name}: {error}", file=sys.stderr)
    print(markdown(tables))


if __name__ == "__main__":
    sys.path.insert(0, str(servers.ROOT / "tests"))
    main()
