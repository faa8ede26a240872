"""An S3 server on loopback for tests: moto's, made to enforce what S3 enforces, to inject faults, and to count.

moto by itself looks at few of the conditions of requests, so that races would pass on it that do not pass on S3. Here
conditions are checked and operations carried out under one lock: an object is one version or another, never between.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from moto.core import DEFAULT_ACCOUNT_ID
from moto.glue.models import glue_backends
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3 import models
from werkzeug.serving import make_server

MIB = 1 << 20
WRITES = ("PutObject", "CopyObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload")

_BY_QUERY = (
    ("PUT", ("uploadId", "partNumber"), "UploadPart"),
    ("PUT", ("tagging",), "PutObjectTagging"),
    ("PUT", ("acl",), "PutObjectAcl"),
    ("POST", ("uploads",), "CreateMultipartUpload"),
    ("POST", ("uploadId",), "CompleteMultipartUpload"),
    ("POST", ("delete",), "DeleteObjects"),
    ("DELETE", ("uploadId",), "AbortMultipartUpload"),
    ("GET", ("tagging",), "GetObjectTagging"),
    ("GET", ("acl",), "GetObjectAcl"),
    ("GET", ("uploadId",), "ListParts"),
    ("GET", ("uploads",), "ListMultipartUploads"),
)
_PLAIN = {"PUT": "PutObject", "GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject", "POST": "PostObject"}
_OF_BUCKET = {"PUT": "CreateBucket", "GET": "ListObjects", "HEAD": "HeadBucket", "DELETE": "DeleteBucket"}
_CONDITIONS = (
    "HTTP_IF_MATCH",
    "HTTP_IF_NONE_MATCH",
    "HTTP_X_AMZ_COPY_SOURCE_IF_MATCH",
    "HTTP_X_AMZ_COPY_SOURCE_IF_NONE_MATCH",
)
_COPIES = {"UploadPart": "UploadPartCopy", "PutObject": "CopyObject"}


class Request(NamedTuple):
    """One line of the log.

    Attributes
    ----------
    method, operation : "PUT", "UploadPartCopy".
    bucket, key : as they are, not as they stand in the URL.
    range : the header `Range`, or that of the range to be copied; "" for none.
    sent, received : bytes of the bodies, as the client sent and received them.
    status : of the answer; 0 if it never got one.
    headers, query : of the request; names of headers in small letters.
    """

    method: str
    operation: str
    bucket: str
    key: str
    range: str
    sent: int
    received: int
    status: int
    headers: dict[str, str]
    query: dict[str, str]


class Refusal(Exception):
    """An answer that is an error of S3."""

    def __init__(self, status: int, code: str, message: str = "", *, raw: bytes | None = None, **more: str):
        super().__init__(code)
        self.status, self.code, self.message, self.raw, self.more = status, code, message, raw, more

    def body(self) -> bytes:
        """The XML that S3 says it with."""
        if self.raw is not None:
            return self.raw
        parts = {"Code": self.code, "Message": self.message or self.code, **self.more, "RequestId": "0"}
        inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in parts.items())
        return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inside}</Error>'.encode()


_COUNTING = threading.RLock()


@dataclass
class Fault:
    """Fault for the next requests that match.

    Attributes
    ----------
    operation : a name or several; None for every request.
    act : what is called with the request.
    times : how many requests it happens to.
    skip : how many that match are spared before.
    when : what else the request must be.
    happened : how many it has happened to.
    """

    operation: str | Iterable[str] | None
    act: Callable[[Request], None]
    times: int = 1
    skip: int = 0
    when: Callable[[Request], bool] | None = None
    happened: int = 0

    def matches(self, request: Request) -> bool:
        """Return whether the fault applies to this request, and count it."""
        with _COUNTING:  # requests come side by side
            return self._matches(request)

    def _matches(self, request: Request) -> bool:
        names = (self.operation,) if isinstance(self.operation, str) else self.operation
        if names is not None and request.operation not in names:
            return False
        if self.when is not None and not self.when(request):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.happened >= self.times:
            return False
        self.happened += 1
        return True


@dataclass
class _State:
    """State that tests set and read."""

    log: list[Request] = field(default_factory=list)
    before: list[Fault] = field(default_factory=list)
    after: list[Fault] = field(default_factory=list)
    delay: float = 0.0
    max_copy: int = 5 << 30
    min_part: int = 5 * MIB
    ignored: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    drops_tags: bool = False
    over: threading.Event = field(default_factory=threading.Event)


class EnforcingServer(ThreadedMotoServer):
    """moto's server with a guard before it.

    Attributes
    ----------
    endpoint : its URL.
    state : log, faults, delay; a new one for each test.
    conditions : False lets it ignore all conditions of requests, as some stores do.
    """

    def __init__(self, conditions: bool = True) -> None:
        super().__init__("127.0.0.1", 0, verbose=False)
        self.conditions = conditions
        models.S3_UPLOAD_PART_MIN_SIZE = 0  # is enforced here, where it can be another
        self.state = _State()
        self.lock = threading.RLock()
        self.start()
        self.endpoint = "http://{}:{}".format(*self.get_host_and_port())

    def _server_entry(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server(self._ip_address, self._port, self._guard, True, request_handler=_QuietHandler)
        self._server_ready_event.set()
        self._server.serve_forever(poll_interval=0.05)

    @property
    def objects(self) -> Any:
        """Memory of moto's."""
        return models.s3_backends[DEFAULT_ACCOUNT_ID]["aws"]

    def _guard(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        state = self.state  # a request that outlives its test does no harm to the next one
        body = _take_body(environ)
        if not self.conditions:
            for name in _CONDITIONS:
                environ.pop(name, None)
        request = _read_request(environ, len(body))
        if state.delay:
            time.sleep(state.delay)
        try:
            for fault in [fault for fault in state.before if fault.matches(request)]:
                fault.act(request)
            with self.lock:
                _check(self.objects, request, body, state)
                _forget_tags(self.objects, request, environ, state)
                if request.operation in state.ignored:
                    environ.pop("HTTP_IF_MATCH", None)  # moto looks at some itself
                if "If-None-Match" in state.ignored:
                    environ.pop("HTTP_IF_NONE_MATCH", None)
                status, headers, answer = self._carry_out(environ)
        except Refusal as refusal:
            status, headers, answer = refusal.status, [("Content-Type", "application/xml")], refusal.body()
            if request.method == "HEAD":
                answer = b""
        except ConnectionError:
            return _hang_up(environ, state, request)
        try:
            for fault in [fault for fault in state.after if fault.matches(request)]:
                fault.act(request)
        except ConnectionError:
            return _hang_up(environ, state, request)
        state.log.append(request._replace(status=status, received=len(answer)))
        if not any(name.lower() == "content-length" for name, _ in headers) and status not in (204, 304):
            headers.append(("Content-Length", str(len(answer))))
        start_response(f"{status} {_REASONS.get(status, 'Status')}", headers)
        return [answer]

    def _carry_out(self, environ: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
        caught: list[Any] = []
        answer = self._application(environ, lambda status, headers, error=None: caught.extend((status, headers)))
        try:
            body = b"".join(answer)
        finally:
            getattr(answer, "close", lambda: None)()
        return int(caught[0].split()[0]), list(caught[1]), body


class _QuietHandler(MotoRequestHandler):
    """Writes no line for each request, and none for connections that tests cut."""

    def log(self, type: str, message: str, *args: Any) -> None:
        if type == "error":
            super().log(type, message, *args)


_REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 304: "Not Modified", 412: "Precondition Failed"}


def _hang_up(environ: dict[str, Any], state: _State, request: Request) -> Iterable[bytes]:
    state.log.append(request)
    with suppress(OSError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError("cut")


def _take_body(environ: dict[str, Any]) -> bytes:
    """Read the whole body and leave it to be read once more."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    terminated = environ.get("wsgi.input_terminated")
    body: bytes = environ["wsgi.input"].read() if terminated else environ["wsgi.input"].read(length)
    if not terminated and len(body) < length:
        raise ConnectionResetError("the client went away in the middle of the body")
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return body


def _read_request(environ: dict[str, Any], sent: int) -> Request:
    headers = {
        name.removeprefix("HTTP_").lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    }
    return read_request(environ["REQUEST_METHOD"], environ["RAW_URI"], headers, sent)


def read_request(method: str, target: str, headers: dict[str, str], sent: int) -> Request:
    """Tell what a request asks for, by its first line and its headers, whose names are in small letters."""
    url = urlsplit(target)
    bucket, _, key = unquote(url.path).lstrip("/").partition("/")
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    operation = (_PLAIN if key else _OF_BUCKET).get(method, method)
    for verb, names, result in _BY_QUERY:
        if method == verb and all(name in query for name in names):
            operation = result
            break
    if "x-amz-copy-source" in headers:
        operation = _COPIES.get(operation, operation)
    span = headers.get("range") or headers.get("x-amz-copy-source-range") or ""
    sent = int(headers.get("x-amz-decoded-content-length") or sent)
    return Request(method, operation, bucket, key, span, sent, 0, 0, headers, query)


def _etag(result: Any) -> str:
    return str(result.etag).strip('"')


def _condition(
    headers: dict[str, str], name: str, result: Any, operation: str = "", state: _State | None = None
) -> bool | None:
    """Return whether a header names the object; None without such a header, or if it is ignored."""
    request = headers.get(name)
    if request is None:
        return None
    if state is not None:
        if operation in state.unknown:
            raise Refusal(501, "NotImplemented", "A header you provided implies functionality that is not implemented")
        if operation in state.ignored:
            return None
        if operation in state.refused or (operation in state.bare and '"' in request):
            return False
    names = {part.strip().strip('"') for part in request.split(",")}
    return result is not None and ("*" in names or _etag(result) in names)


def _failed(condition: str) -> Refusal:
    message = "At least one of the pre-conditions you specified did not hold"
    return Refusal(412, "PreconditionFailed", message, Condition=condition)


def _find(objects: Any, bucket: str, key: str, version: str | None = None) -> Any:
    if bucket not in objects.buckets:
        raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist")
    return objects.get_object(bucket, key, version_id=version)


def _check(objects: Any, request: Request, body: bytes, state: _State) -> None:
    """Raise Refusal for what S3 and Glue refuse and moto does not."""
    if request.headers.get("x-amz-target") == "AWSGlue.UpdateTable":
        _check_glue(body)
    if not request.key or request.method not in _PLAIN:
        return
    headers, operation = request.headers, request.operation
    matches = _find(objects, request.bucket, request.key, request.query.get("versionId"))
    if operation == "GetObjectAcl" and matches is not None and matches.acl is None:
        matches.acl = models.get_canned_acl("private")  # which moto forgets for uploads in parts
    if operation in ("GetObject", "HeadObject"):
        _check_read(request, matches, state)
    if operation in ("PutObject", "CopyObject", "CompleteMultipartUpload", "DeleteObject"):
        if headers.get("if-match") and matches is None and operation not in state.ignored:
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.", Key=request.key)
        if _condition(headers, "if-match", matches, operation, state) is False:
            raise _failed("If-Match")
        if "If-None-Match" not in state.ignored and _condition(headers, "if-none-match", matches):
            raise _failed("If-None-Match")
    if operation in ("UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "AbortMultipartUpload"):
        ours = matches is not None and matches.multipart and matches.multipart.id == request.query["uploadId"]
        if request.query["uploadId"] not in objects.get_bucket(request.bucket).multiparts and not ours:
            raise Refusal(404, "NoSuchUpload", "The specified upload does not exist.")
        if operation == "CompleteMultipartUpload" and not ours:
            parts = objects.get_bucket(request.bucket).multiparts[request.query["uploadId"]].parts
            numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)<", body)]
            if any(parts[number].contentsize < state.min_part for number in numbers[:-1] if number in parts):
                raise Refusal(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
    if operation in ("UploadPartCopy", "CopyObject"):
        _check_copy(objects, operation, headers, state)
    digest = headers.get("content-md5")
    if digest and base64.b64decode(digest) != hashlib.md5(body).digest():
        raise Refusal(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")


def _check_glue(body: bytes) -> None:
    """Raise Refusal unless the table has the version that its update is to follow."""
    asked = json.loads(body)
    table = glue_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].get_table(asked["DatabaseName"], asked["TableInput"]["Name"])
    if asked.get("VersionId") not in (None, str(table.as_dict()["VersionId"])):
        raise make_glue_refusal("ConcurrentModificationException")


def make_glue_refusal(kind: str, status: int = 400) -> Refusal:
    """Return an answer that is an error of Glue."""
    return Refusal(status, kind, raw=json.dumps({"__type": kind, "message": kind}).encode())


def _check_read(request: Request, matches: Any, state: _State) -> None:
    if matches is None:
        return  # moto knows the ways in which something can be missing
    if _condition(request.headers, "if-match", matches, request.operation, state) is False:
        raise _failed("If-Match")
    if _condition(request.headers, "if-none-match", matches):
        raise Refusal(304, "NotModified")
    span = re.fullmatch(r"bytes=(\d*)-(\d*)", request.range)
    if not span:
        return
    start, end = span.groups()
    if (start and int(start) >= matches.size) or (not start and end and not (int(end) and matches.size)):
        text = "The requested range is not satisfiable"
        raise Refusal(416, "InvalidRange", text, RangeRequested=request.range, ActualObjectSize=str(matches.size))


def _forget_tags(objects: Any, request: Request, environ: dict[str, Any], state: _State) -> None:
    """Do as Ceph's gateway does, if so set: uploads in parts get no tags, and nothing is said of theirs."""
    if not state.drops_tags:
        return
    if request.operation == "CreateMultipartUpload":
        environ.pop("HTTP_X_AMZ_TAGGING", None)
    result = objects.get_object(request.bucket, request.key) if request.operation == "GetObjectTagging" else None
    if result is not None and result.multipart and not objects.tagger.get_tag_dict_for_resource(result.arn):
        raise Refusal(200, "", raw=b"")


def _check_copy(objects: Any, operation: str, headers: dict[str, str], state: _State) -> None:
    path, _, version = headers["x-amz-copy-source"].partition("?versionId=")
    bucket, _, key = unquote(path).lstrip("/").partition("/")
    matches = _find(objects, bucket, key, version or None)
    if matches is None:
        raise Refusal(404, "NoSuchKey", "The specified key does not exist.", Key=key)
    if _condition(headers, "x-amz-copy-source-if-match", matches, operation, state) is False:
        raise _failed("x-amz-copy-source-If-Match")
    if _condition(headers, "x-amz-copy-source-if-none-match", matches):
        raise _failed("x-amz-copy-source-If-None-Match")
    length = matches.size
    if "x-amz-copy-source-range" in headers:
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", headers["x-amz-copy-source-range"])
        if not span or int(span[1]) > int(span[2]) or int(span[2]) >= matches.size:
            text = f"Range specified is not valid for source object of size: {matches.size}"
            raise Refusal(400, "InvalidArgument", text)
        if matches.size <= state.min_part:
            text = "The specified copy source is not supported as a byte-range copy source"
            raise Refusal(400, "InvalidRequest", text)
        length = int(span[2]) - int(span[1]) + 1
    if length > state.max_copy:
        raise Refusal(400, "InvalidRequest", "The specified copy source is larger than the maximum allowable size")


def _cut(request: Request) -> None:
    raise ConnectionResetError("cut")


class S3:
    """Test's view of the server: a private bucket, the log since the test began, and faults to inject.

    Attributes
    ----------
    endpoint, bucket : URL of the server, and a bucket that is new.
    storage_options : options under obstore's names.
    """

    def __init__(self, server: EnforcingServer) -> None:
        server.state = self._state = _State()
        self._server = server
        self.endpoint = server.endpoint
        self.bucket = f"lake-{uuid.uuid4().hex[:12]}"
        self.storage_options = {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        with server.lock:
            server.objects.create_bucket(self.bucket, "us-east-1")

    def url(self, key: str) -> str:
        """`s3://bucket/key`."""
        return f"s3://{self.bucket}/{key}"

    @property
    def log(self) -> list[Request]:
        """Every request so far, in the order in which they ended; a copy."""
        return list(self._state.log)

    def clear_log(self) -> None:
        """Forget the requests so far."""
        self._state.log.clear()

    def operations(self) -> list[str]:
        """Names of the operations so far."""
        return [request.operation for request in self.log]

    def client(self) -> Any:
        """A boto3 client of the server, for what tests set up."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def put(self, key: str, data: bytes) -> str:
        """Write an object directly, without a request; returns its etag, in quotes."""
        with self._server.lock:
            return str(self._server.objects.put_object(self.bucket, key, data).etag)

    def get(self, key: str) -> bytes | None:
        """The object's bytes, without a request; None if there is none."""
        with self._server.lock:
            result = self._server.objects.get_object(self.bucket, key)
            return None if result is None else bytes(result.value)

    def head(self, key: str) -> Any:
        """The server's own record of an object, without a request; None if there is none."""
        with self._server.lock:
            return self._server.objects.get_object(self.bucket, key)

    def delete(self, key: str) -> None:
        """Remove an object, without a request."""
        with self._server.lock:
            self._server.objects.delete_object(self.bucket, key)

    def uploads(self) -> list[str]:
        """Ids of the multipart uploads that were begun and neither completed nor aborted."""
        with self._server.lock:
            return list(self._server.objects.get_bucket(self.bucket).multiparts)

    def delay(self, seconds: float) -> None:
        """Let each request from now on wait so long before anything is done."""
        self._state.delay = seconds

    def limit_parts(self, smallest: int = 5 * MIB, copied: int = 5 << 30) -> None:
        """Other limits than S3's: bytes of every part but the last, and bytes that are copied at once."""
        self._state.min_part, self._state.max_copy = smallest, copied

    def conditions(
        self,
        *,
        ignored: Iterable[str] = (),
        unknown: Iterable[str] = (),
        refused: Iterable[str] = (),
        bare: Iterable[str] = (),
    ) -> None:
        """Treat If-Match, or its like for copies, of these operations in another way than S3 does.

        Ignore it, answer 501, refuse the right etag, too, or take it without quotes only. With "If-None-Match" among
        those ignored, objects are created over others.
        """
        state = self._state
        state.ignored, state.unknown, state.refused, state.bare = set(ignored), set(unknown), set(refused), set(bare)

    def drop_tags(self) -> None:
        """Give no tags to uploads in parts from now on, and say nothing of them."""
        self._state.drops_tags = True

    def hang(self, operation: str | Iterable[str] | None = None, times: int = 1000, **which: Any) -> Fault:
        """Never answer requests that match, and do nothing."""
        return self.before(operation, self._never, times=times, **which)

    def hang_after(self, operation: str | Iterable[str] | None = None, times: int = 1000, **which: Any) -> Fault:
        """Carry out requests that match, and never answer."""
        return self.after(operation, self._never, times=times, **which)

    def _never(self, request: Request) -> None:
        self._state.over.wait(600)
        raise ConnectionResetError("cut")

    def before(self, operation: str | Iterable[str] | None, act: Callable[[Request], None], **which: Any) -> Fault:
        """Call `act(request)` before a request that matches is looked at; `which` (times, skip, when): see `Fault`."""
        fault = Fault(operation, act, **which)
        self._state.before.append(fault)
        return fault

    def after(self, operation: str | Iterable[str] | None, act: Callable[[Request], None], **which: Any) -> Fault:
        """As `before`, when the request was carried out or refused, and before it is answered."""
        fault = Fault(operation, act, **which)
        self._state.after.append(fault)
        return fault

    def fail(
        self,
        operation: str | Iterable[str] | None = None,
        times: int = 1,
        *,
        status: int = 503,
        code: str = "SlowDown",
        raw: bytes | None = None,
        **which: Any,
    ) -> Fault:
        """Answer the next requests that match with an error, and do nothing else; 200 is S3's late kind of failure.

        `raw` is a body to answer with instead of S3's XML; for `which`, see `before`.
        """

        def refuse(request: Request) -> None:
            raise Refusal(status, code, "Please reduce your request rate." if code == "SlowDown" else "", raw=raw)

        return self.before(operation, refuse, times=times, **which)

    def lose_request(self, operation: str | Iterable[str] | None = None, times: int = 1, **which: Any) -> Fault:
        """Cut the connection before anything is done."""
        return self.before(operation, _cut, times=times, **which)

    def lose_answer(self, operation: str | Iterable[str] | None = None, times: int = 1, **which: Any) -> Fault:
        """Carry the operation out, then cut the connection instead of answering."""
        return self.after(operation, _cut, times=times, **which)

    def close(self) -> None:
        """Leave nothing: faults, log, objects."""
        self._state.over.set()
        self._server.state = _State()
        with self._server.lock:
            objects = self._server.objects
            objects.get_bucket(self.bucket).keys.clear()
            objects.get_bucket(self.bucket).multiparts.clear()
            objects.delete_bucket(self.bucket)


def serve(conditions: bool = True) -> Iterator[EnforcingServer]:
    """The server, for a fixture."""
    server = EnforcingServer(conditions)
    try:
        yield server
    finally:
        server.stop()
        server._server.server_close()
