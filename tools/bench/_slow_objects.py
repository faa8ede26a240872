"""The objects of the slow store, and its responses: S3's protocol over folders on disk, without checking signatures.

It supports GET and HEAD (ranges, suffixes, `If-Match`, `If-None-Match`), ListObjectsV2, PUT (with both conditions),
multi-part uploads, with parts that are copied, and DELETE of one object or many. Metadata of all objects is read at the
start and kept in memory, as nothing else changes the folders while the server runs.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape

INCOMING = ".incoming"  # folder in which objects are written before they are renamed
_LAST = "\U0010ffff"
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NAMESPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_TEXTS = {
    200: "OK", 204: "No Content", 206: "Partial Content", 304: "Not Modified", 400: "Bad Request", 404: "Not Found",
    412: "Precondition Failed", 416: "Requested Range Not Satisfiable", 501: "Not Implemented",
}  # fmt: skip


class Piece(NamedTuple):
    """A range of a file, sent as a body."""

    descriptor: int
    offset: int
    length: int


class Answer(NamedTuple):
    """The head of a response, including the blank line, and its body."""

    head: bytes
    body: bytes | Piece

    @property
    def size(self) -> int:
        return self.body.length if isinstance(self.body, Piece) else len(self.body)


class Request(NamedTuple):
    """A request; names of headers are in lower case."""

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    body: bytes


class Entry:
    """An object: its file, opened when it is first read."""

    __slots__ = ("_descriptor", "etag", "head", "path", "size", "xml")

    def __init__(self, key: str, path: Path) -> None:
        status = path.stat()
        identity = f"{key} {status.st_size} {status.st_mtime_ns}".encode()
        # A file has the same etag in the next run of the server.
        etag = hashlib.blake2b(identity, digest_size=16).hexdigest()
        moment = datetime.fromtimestamp(int(status.st_mtime), UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self.path = path
        self.size = status.st_size
        self.etag = f'"{etag}"'.encode()
        self.head = (
            f'ETag: "{etag}"\r\nLast-Modified: {formatdate(int(status.st_mtime), usegmt=True)}\r\n'
            "Accept-Ranges: bytes\r\nContent-Type: binary/octet-stream\r\n\r\n"
        ).encode()
        self.xml = (
            f"<LastModified>{moment}</LastModified><ETag>&quot;{etag}&quot;</ETag><Size>{status.st_size}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )
        self._descriptor = -1

    def descriptor(self) -> int:
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDONLY)
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Bucket:
    """The files of a folder as objects, with their relative paths as keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: dict[str, Entry] = {}
        for parent, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = Path(parent, name)
                key = path.relative_to(folder).as_posix()
                self.entries[key] = Entry(key, path)
        self.keys = sorted(self.entries)
        self._numbers = itertools.count()

    def put(self, key: str, *parts: bytes) -> Entry:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        incoming = self.folder / INCOMING / str(next(self._numbers))
        incoming.parent.mkdir(exist_ok=True)
        with incoming.open("wb") as file:
            file.writelines(parts)
        incoming.replace(path)
        old = self.entries.get(key)
        if old is None:
            insort(self.keys, key)
        else:
            old.close()
        entry = self.entries[key] = Entry(key, path)
        return entry

    def delete(self, key: str) -> None:
        entry = self.entries.pop(key, None)
        if entry is not None:
            entry.close()
            entry.path.unlink()
            del self.keys[bisect_left(self.keys, key)]

    def listed(self, query: Mapping[str, str]) -> str:
        """Return the response to ListObjectsV2."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(int(query.get("max-keys", 1000)), 1000)
        spelled = quote if query.get("encoding-type") == "url" else escape
        at = bisect_left(self.keys, prefix)
        if after:
            at = max(at, bisect_left(self.keys, after + "\0"))
        contents: list[str] = []
        folders: list[str] = []
        last = ""
        while at < len(self.keys) and len(contents) + len(folders) < most:
            key = self.keys[at]
            if not key.startswith(prefix):
                at = len(self.keys)
                break
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                folder = key[: end + len(delimiter)]
                last = folder + _LAST  # after all keys below it
                at = bisect_left(self.keys, last)
                folders.append(f"<CommonPrefixes><Prefix>{spelled(folder)}</Prefix></CommonPrefixes>")
            else:
                contents.append(f"<Contents><Key>{spelled(key)}</Key>{self.entries[key].xml}")
                last = key
                at += 1
        more = at < len(self.keys) and self.keys[at].startswith(prefix) and last
        return (
            f"{_XML}<ListBucketResult{_NAMESPACE}><Prefix>{spelled(prefix)}</Prefix><MaxKeys>{most}</MaxKeys>"
            f"<KeyCount>{len(contents) + len(folders)}</KeyCount>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
            + (f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else "")
            + "".join(contents)
            + "".join(folders)
            + "</ListBucketResult>"
        )


@dataclass
class Upload:
    """An incomplete multi-part upload."""

    key: str
    parts: dict[int, bytes]


class Served:
    """Counts of requests since they were last taken.

    Attributes
    ----------
    requests : {kind: number}; a GET of a folder is LIST.
    down, up : bytes of bodies sent and received.
    ranges : ranges sent of each object.
    most : maximum number of requests waiting at the same time.
    rounds : round trips one after the other: the most requests of which each arrived after the one before was answered.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.down = self.up = self.most = self.rounds = 0
        self._answered = 0.0
        self.ranges: dict[tuple[str, str, bytes], list[tuple[int, int]]] = {}

    def add_round(self, arrived: float, now: float) -> None:
        """Note when a request arrived that is answered now; requests are answered in the order in which they arrive."""
        if arrived >= self._answered:
            self.rounds, self._answered = self.rounds + 1, now

    def counts(self) -> dict[str, object]:
        """Return all counts; `below` are the bytes sent of each file or folder at the top of a bucket."""
        below: Counter[str] = Counter()
        for (_, key, _), ranges in self.ranges.items():
            below[key.partition("/")[0]] += sum(end - start for start, end in ranges)
        return {
            "below": dict(below),
            "requests": dict(self.requests),
            "down": self.down,
            "up": self.up,
            "again": sum(map(_again, self.ranges.values())),
            "most": self.most,
            "rounds": self.rounds,
        }


def _again(ranges: list[tuple[int, int]]) -> int:
    """Return the number of bytes of an object that were sent again."""
    reached = sent = covered = 0
    for start, end in sorted(ranges):
        sent += end - start
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return sent - covered


class Store:
    """Buckets, and responses to requests for their objects."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self.buckets = {name: Bucket(folder) for name, folder in folders.items()}
        self.uploads: dict[str, Upload] = {}
        self.served = Served()
        self._numbers = itertools.count(1)

    def answer(self, request: Request) -> Answer:
        """Answer a request, and count it."""
        self.served.up += len(request.body)
        kind, answer = self._answered(request)
        self.served.requests[kind] += 1
        self.served.down += answer.size
        return answer

    def _answered(self, request: Request) -> tuple[str, Answer]:
        method = request.method.decode()
        path, _, text = request.target.decode().partition("?")
        name, _, key = unquote(path).lstrip("/").partition("/")
        bucket = self.buckets.get(name)
        if bucket is None:
            return method, _error(404, "NoSuchBucket")
        if ".." in key.split("/") or key.startswith((".", "/")):
            return method, _error(400, "InvalidArgument")
        query = dict(parse_qsl(text, keep_blank_values=True)) if text else {}
        if method in ("GET", "HEAD") and key:
            if query.keys() & {"tagging", "acl", "uploadId"}:
                return method, _error(501, "NotImplemented")
            return method, self._read(name, bucket, key, request)
        if method == "GET":
            if "location" in query:
                return "GET", _xml(f"<LocationConstraint{_NAMESPACE}/>")
            return "LIST", _xml(bucket.listed(query))
        if method == "HEAD":
            return "HEAD", _empty(200)
        if method == "PUT" and key:
            return "PUT", self._put(bucket, key, query, request)
        if method == "POST":
            return "POST", self._posted(bucket, key, query, request)
        if method == "DELETE" and key:
            if "uploadId" in query:
                self.uploads.pop(query["uploadId"], None)
            else:
                bucket.delete(key)
            return "DELETE", _empty(204)
        return method, _error(501, "NotImplemented")

    def _read(self, name: str, bucket: Bucket, key: str, request: Request) -> Answer:
        entry = bucket.entries.get(key)
        if entry is None:
            return _error(404, "NoSuchKey", request.method == b"HEAD")
        headers = request.headers
        if not _matches(headers.get(b"if-match"), entry.etag):
            return _error(412, "PreconditionFailed", request.method == b"HEAD")
        if b"if-none-match" in headers and _matches(headers[b"if-none-match"], entry.etag):
            return Answer(b"HTTP/1.1 304 Not Modified\r\n" + entry.head, b"")
        start, end = 0, entry.size
        range_header = headers.get(b"range")
        line = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % entry.size
        if range_header is not None:
            first, _, last = range_header.removeprefix(b"bytes=").partition(b"-")
            if first:
                start = int(first)
                end = min(int(last) + 1, entry.size) if last else entry.size
            else:
                start = max(0, entry.size - int(last))
            if start >= end:
                return _error(416, "InvalidRange", request.method == b"HEAD")
            line = b"HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\nContent-Range: bytes %d-%d/%d\r\n" % (
                end - start, start, end - 1, entry.size,
            )  # fmt: skip
        if request.method == b"HEAD":
            return Answer(line + entry.head, b"")
        self.served.ranges.setdefault((name, key, entry.etag), []).append((start, end))
        return Answer(line + entry.head, Piece(entry.descriptor(), start, end - start))

    def _put(self, bucket: Bucket, key: str, query: Mapping[str, str], request: Request) -> Answer:
        copied = b"x-amz-copy-source" in request.headers
        if (copied and "partNumber" not in query) or query.keys() & {"tagging", "acl"}:
            return _error(501, "NotImplemented")
        if key.endswith("/"):
            return _empty(200, "0" * 32)  # pyarrow's folder marker, whose name no file can have
        body = _unwrapped(request)
        if "partNumber" in query:
            upload = self.uploads.get(query["uploadId"])
            if upload is None:
                return _error(404, "NoSuchUpload")
            if copied:
                return self._copy_part(upload, int(query["partNumber"]), request.headers)
            upload.parts[int(query["partNumber"])] = body
            return _empty(200, hashlib.blake2b(body, digest_size=16).hexdigest())
        if refused := _refused(bucket, key, request):
            return refused
        return Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + bucket.put(key, body).head, b"")

    def _copy_part(self, upload: Upload, number: int, headers: Mapping[bytes, bytes]) -> Answer:
        name, _, key = unquote(headers[b"x-amz-copy-source"].decode()).lstrip("/").partition("/")
        entry = self.buckets[name].entries.get(key)
        if entry is None:
            return _error(404, "NoSuchKey")
        if not _matches(headers.get(b"x-amz-copy-source-if-match"), entry.etag):
            return _error(412, "PreconditionFailed")
        start, _, last = headers[b"x-amz-copy-source-range"].removeprefix(b"bytes=").partition(b"-")
        part = upload.parts[number] = os.pread(entry.descriptor(), int(last) + 1 - int(start), int(start))
        tag = hashlib.blake2b(part, digest_size=16).hexdigest()
        return _xml(f"<CopyPartResult{_NAMESPACE}><ETag>&quot;{tag}&quot;</ETag></CopyPartResult>")

    def _posted(self, bucket: Bucket, key: str, query: Mapping[str, str], request: Request) -> Answer:
        if "delete" in query:
            body = _unwrapped(request).decode()
            keys = [_unescaped(text) for text in re.findall("<Key>(.*?)</Key>", body, re.DOTALL)]
            for one in keys:
                bucket.delete(one)
            deleted = "".join(f"<Deleted><Key>{escape(one)}</Key></Deleted>" for one in keys)
            return _xml(f"<DeleteResult{_NAMESPACE}>{deleted}</DeleteResult>")
        names = f"<Bucket>-</Bucket><Key>{escape(key)}</Key>"
        if "uploads" in query:
            number = str(next(self._numbers))
            self.uploads[number] = Upload(key, {})
            return _xml(
                f"<InitiateMultipartUploadResult{_NAMESPACE}>{names}<UploadId>{number}</UploadId>"
                "</InitiateMultipartUploadResult>"
            )
        upload = self.uploads.get(query.get("uploadId", ""))
        if upload is None:
            return _error(404, "NoSuchUpload")
        if refused := _refused(bucket, key, request):
            return refused
        entry = bucket.put(key, *(part for _, part in sorted(upload.parts.items())))
        del self.uploads[query["uploadId"]]
        return _xml(
            f"<CompleteMultipartUploadResult{_NAMESPACE}>{names}<ETag>{escape(entry.etag.decode())}</ETag>"
            "</CompleteMultipartUploadResult>"
        )


def _matches(condition: bytes | None, etag: bytes) -> bool:
    """Return whether the condition of `If-Match` holds."""
    return condition is None or condition == b"*" or etag in condition


def _refused(bucket: Bucket, key: str, request: Request) -> Answer | None:
    """Reject a write whose conditions do not hold."""
    entry = bucket.entries.get(key)
    if_match = request.headers.get(b"if-match")
    if if_match is not None and entry is None:
        return _error(404, "NoSuchKey")
    if entry is not None and (b"if-none-match" in request.headers or not _matches(if_match, entry.etag)):
        return _error(412, "PreconditionFailed")
    return None


def _unwrapped(request: Request) -> bytes:
    """Decode a body from the signed chunks that some clients send."""
    if b"aws-chunked" not in request.headers.get(b"content-encoding", b""):
        return request.body
    parts = []
    at = 0
    while True:
        end = request.body.index(b"\r\n", at)
        size = int(request.body[at:end].partition(b";")[0], 16)
        if not size:
            return b"".join(parts)
        parts.append(request.body[end + 2 : end + 2 + size])
        at = end + size + 4


def _unescaped(text: str) -> str:
    for name, character in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("apos", "'"), ("amp", "&")):
        text = text.replace(f"&{name};", character)
    return text


def _xml(text: str) -> Answer:
    body = (text if text.startswith("<?xml") else _XML + text).encode()
    return Answer(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n" % len(body), body)


def _empty(status: int, etag: str | None = None) -> Answer:
    tag = "" if etag is None else f'ETag: "{etag}"\r\n'
    length = "" if status == 204 else "Content-Length: 0\r\n"
    return Answer(f"HTTP/1.1 {status} {_TEXTS[status]}\r\n{tag}{length}\r\n".encode(), b"")


def _error(status: int, code: str, bare: bool = False) -> Answer:
    body = b"" if bare else f"{_XML}<Error><Code>{code}</Code><Message>{_TEXTS[status]}</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {_TEXTS[status]}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return Answer(head.encode(), body)
