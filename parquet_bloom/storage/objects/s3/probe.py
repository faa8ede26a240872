"""A small object of our own beside the one to be written, on which a store shows what it does; then it is deleted."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from ....errors import StorageError
from .access import Access, parse_access
from .attributes import RUN, find_run_id
from .client import failure_types, http_status, make_error
from .head import Tags, parse_tags
from .requests import Requests
from .upload import add_to_error

NAME = ".parquet-bloom-probe-"
"""What its name begins with; listings for data pass over names that begin with a dot."""
_NO_VERSION = "null"  # what some stores call the only one where they keep no others
_MAX_UNNAMED = 10  # versions whose answers got lost


class Probe:
    """The object, in a `with` statement; when that is left, it and its uploads are no more.

    Its requests raise what boto3 raises, `failure_types()`.

    Parameters
    ----------
    path : of the object to be written, for errors.
    key : of the object to be written; the probe is in its folder.

    Attributes
    ----------
    url : the probe's.
    path : as given.
    """

    def __init__(self, client: Any, requests: Requests, bucket: str, key: str, path: str) -> None:
        folder, slash, _ = key.rpartition("/")
        name = f"{folder}{slash}{NAME}{uuid.uuid4().hex}"
        self.url = f"s3://{bucket}/{name}"
        self._client, self._requests, self.path = client, requests, path
        self._target = {"Bucket": bucket, "Key": name}
        self._server = self._run = ""
        self._written = self._cleared = False
        self._versions: set[str] = set()
        self._uploads: set[str] = set()
        self._lock = threading.Lock()

    @property
    def store(self) -> str:
        """What to call the store in a message: what it says that it is, and where."""
        url = urlsplit(self._client.meta.endpoint_url)
        where = f"{url.hostname}:{url.port}" if url.port else str(url.hostname)
        return f"the store ({self._server[:60]}, at {where})" if self._server else f"the store at {where}"

    def put(self, attributes: Mapping[str, Any], **condition: str) -> str:
        """Write the object; returns its etag."""
        self._run, self._written = uuid.uuid4().hex, True
        put, body = self._client.put_object, self._run.encode()
        answer = self._send(put, self._note_written, Body=body, **self.marked(attributes), **condition)
        self._note_written(answer)
        return str(answer.get("ETag", ""))

    def begin(self, attributes: Mapping[str, Any]) -> str:
        """Begin an upload; returns its id."""
        self._run = uuid.uuid4().hex
        create = self._client.create_multipart_upload
        answer = self._send(create, self._note_begun, **self.marked(attributes))
        self._note_begun(answer)
        return str(answer.get("UploadId", ""))

    def marked(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """What was given last: these attributes, and in their metadata which run it was."""
        return {**attributes, "Metadata": {**attributes.get("Metadata", {}), RUN: self._run}}

    def copy_part(self, upload: str, condition: str) -> str:
        """Copy the object into the upload's first part; returns the part's etag."""
        answer = self._send(
            self._client.upload_part_copy,
            UploadId=upload,
            PartNumber=1,
            CopySource=self._target,
            CopySourceIfMatch=condition,
        )
        return str(answer.get("CopyPartResult", {}).get("ETag", ""))

    def upload_part(self, upload: str) -> str:
        """Upload the first part; returns its etag."""
        return str(self._send(self._client.upload_part, UploadId=upload, PartNumber=1, Body=b"part").get("ETag", ""))

    def complete(self, upload: str, part: str, **condition: str) -> None:
        """End the upload."""
        self._written = True
        parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
        call = self._client.complete_multipart_upload
        answer = self._send(call, self._note_written, UploadId=upload, MultipartUpload=parts, **condition)
        self._note_written(answer)
        self._uploads.discard(upload)

    def head(self) -> Mapping[str, Any]:
        """The answer to a HEAD."""
        answer: Mapping[str, Any] = self._send(self._client.head_object)
        return answer

    def was_written(self) -> bool:
        """Whether it is what the last PUT or upload was to make of it."""
        return find_run_id(self.head()) == self._run

    def tags(self) -> Tags | None:
        """Its tags; None if the answer says nothing."""
        return parse_tags(self._send(self._client.get_object_tagging))

    def access(self) -> Access | None:
        """Its access control list; None if the store does not tell."""
        with suppress(*failure_types()):
            return parse_access(self._send(self._client.get_object_acl))
        return None

    def _send(self, call: Callable[..., Any], late: Callable[[Any], None] | None = None, **arguments: Any) -> Any:
        try:
            answer = self._requests.send(call, late, **self._target, **arguments)
        except failure_types() as error:
            self._note_server(getattr(error, "response", None) or {})
            raise
        self._note_server(answer)
        return answer

    def _note_server(self, answer: Mapping[str, Any]) -> None:
        self._server = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("server") or self._server

    def _note_written(self, answer: Mapping[str, Any]) -> None:
        with self._lock:
            self._versions |= {answer["VersionId"]} if answer.get("VersionId") else set()
            cleared = self._cleared
        if cleared:  # an answer that nobody waited for any more
            self._delete(lambda call, **arguments: call(**arguments))

    def _note_begun(self, answer: Mapping[str, Any]) -> None:
        with self._lock:
            self._uploads |= {answer["UploadId"]} if answer.get("UploadId") else set()
            cleared = self._cleared
        if cleared:
            self._abort(lambda call, **arguments: call(**arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the object; StorageError, or a part more of the one that is on its way, if that fails."""
        end = self._requests.end_of_clearing()
        with self._lock:
            self._cleared = True

        def send(call: Callable[..., Any], **arguments: Any) -> Any:
            return self._requests.clear_up(call, end, **arguments)

        problems = [text for text in (self._abort(send), self._delete(send)) if text]
        if problems and error is None:
            raise StorageError("; ".join(problems), path=self.path)
        if problems and error is not None:
            add_to_error(error, "; ".join(problems))

    def _abort(self, send: Callable[..., Any]) -> str:
        """What is left behind; empty for nothing."""
        problems = ""
        for upload in sorted(self._uploads):
            try:
                send(self._client.abort_multipart_upload, **self._target, UploadId=upload)
            except failure_types() as error:
                if http_status(error) != 404:
                    action = f"cannot abort the upload {upload} of the probe {self.url} (s3:AbortMultipartUpload)"
                    problems = make_error(error, action, self.path).problem
        return problems

    def _delete(self, send: Callable[..., Any]) -> str:
        if not self._written:
            return ""
        try:
            self._delete_versions(send)
        except failure_types() as error:
            action = f"cannot delete the probe {self.url}, which may be left there (s3:DeleteObject)"
            return make_error(error, action, self.path).problem
        return ""

    def _delete_versions(self, send: Callable[..., Any]) -> None:
        """Delete what was written for good, where versions are kept and it may; else as anybody deletes."""
        try:
            for version in sorted(self._versions):
                send(self._client.delete_object, **self._target, VersionId=version)
        except failure_types() as error:
            if http_status(error) in (0, 503):
                raise
        else:
            kept = self._versions - {_NO_VERSION}
            if self._versions and not (kept and self._has_unnamed_version(send)):
                return
        send(self._client.delete_object, **self._target)

    def _has_unnamed_version(self, send: Callable[..., Any]) -> bool:
        """Whether a version is left that no answer has named: one whose answer got lost."""
        for _ in range(_MAX_UNNAMED):
            try:
                version = send(self._client.head_object, **self._target).get("VersionId")
            except failure_types() as error:
                return http_status(error) != 404
            if not version:
                return True
            send(self._client.delete_object, **self._target, VersionId=version)
        return True
