"""Temporary object beside the one to write, for checks of what a store does."""

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
"""Prefix of its name; listings of data skip names that begin with a dot."""
_NO_VERSION = "null"  # version id of some stores for objects without versions
_MAX_UNNAMED = 10  # versions whose responses were lost


class Probe:
    """Context manager for the object; on exit it and its uploads are deleted.

    Its methods raise the errors of boto3, `failure_types()`.

    Parameters
    ----------
    path : path of the object to write, for errors.
    key : key of the object to write; the probe is in its folder.

    Attributes
    ----------
    url : URL of the probe.
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
        """Name of the store for messages: its server name and address."""
        url = urlsplit(self._client.meta.endpoint_url)
        where = f"{url.hostname}:{url.port}" if url.port else str(url.hostname)
        return f"the store ({self._server[:60]}, at {where})" if self._server else f"the store at {where}"

    def put(self, attributes: Mapping[str, Any], **condition: str) -> str:
        """Write the object and return its etag."""
        self._run, self._written = uuid.uuid4().hex, True
        put, body = self._client.put_object, self._run.encode()
        answer = self._send(put, self._note_written, Body=body, **self.marked(attributes), **condition)
        self._note_written(answer)
        return str(answer.get("ETag", ""))

    def begin(self, attributes: Mapping[str, Any]) -> str:
        """Begin an upload and return its id."""
        self._run = uuid.uuid4().hex
        create = self._client.create_multipart_upload
        answer = self._send(create, self._note_begun, **self.marked(attributes))
        self._note_begun(answer)
        return str(answer.get("UploadId", ""))

    def marked(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes with the last run in their metadata, as they were last written."""
        return {**attributes, "Metadata": {**attributes.get("Metadata", {}), RUN: self._run}}

    def copy_part(self, upload: str, condition: str) -> str:
        """Copy the object into the first part of the upload and return the etag of the part."""
        answer = self._send(
            self._client.upload_part_copy,
            UploadId=upload,
            PartNumber=1,
            CopySource=self._target,
            CopySourceIfMatch=condition,
        )
        return str(answer.get("CopyPartResult", {}).get("ETag", ""))

    def upload_part(self, upload: str) -> str:
        """Upload the first part and return its etag."""
        return str(self._send(self._client.upload_part, UploadId=upload, PartNumber=1, Body=b"part").get("ETag", ""))

    def complete(self, upload: str, part: str, **condition: str) -> None:
        """Complete the upload."""
        self._written = True
        parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
        call = self._client.complete_multipart_upload
        answer = self._send(call, self._note_written, UploadId=upload, MultipartUpload=parts, **condition)
        self._note_written(answer)
        self._uploads.discard(upload)

    def head(self) -> Mapping[str, Any]:
        """Return the HEAD response."""
        answer: Mapping[str, Any] = self._send(self._client.head_object)
        return answer

    def was_written(self) -> bool:
        """Return whether the last PUT or upload wrote the current object."""
        return find_run_id(self.head()) == self._run

    def tags(self) -> Tags | None:
        """Return its tags; None if the response has no TagSet."""
        return parse_tags(self._send(self._client.get_object_tagging))

    def access(self) -> Access | None:
        """Return its access control list; None if the store does not report it."""
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
        if cleared:  # a late response, after the cleanup
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
        """Delete the object; a failure is raised as StorageError, or added to the error that is being handled."""
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
        """Abort the uploads; return the problem if one is left, else an empty text."""
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
        """Delete all versions that were written if this is allowed; else delete the object."""
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
        """Return whether a version is left whose response was lost."""
        for _ in range(_MAX_UNNAMED):
            try:
                version = send(self._client.head_object, **self._target).get("VersionId")
            except failure_types() as error:
                return http_status(error) != 404
            if not version:
                return True
            send(self._client.delete_object, **self._target, VersionId=version)
        return True
