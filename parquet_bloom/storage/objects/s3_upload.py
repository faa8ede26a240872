"""Multipart uploads: parts are copied or sent, and the upload is completed or aborted."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import ParquetBloomError, StorageError
from .object_state import make_request_error
from .s3_client import failure_types, http_status
from .s3_requests import Requests


class Upload:
    """A multipart upload; it need not be started.

    Parameters
    ----------
    target : bucket and key of the new object.
    path : path of that object, for errors.
    read_from : path of the object that is copied.

    Attributes
    ----------
    upload_id : id of the upload, while there is one.
    leftover : message about an upload that could not be aborted; else empty.
    """

    def __init__(self, client: Any, requests: Requests, target: Mapping[str, str], path: str, read_from: str) -> None:
        self.upload_id: str | None = None
        self.leftover = ""
        self._client, self._requests, self._target = client, requests, target
        self._path, self._read_from = path, read_from
        self._parts: list[dict[str, Any]] = []
        self._over = False
        self._aborted: str | None = None
        self._lock = threading.Lock()

    def begin(self, attributes: Mapping[str, Any]) -> None:
        """Begin the upload of an object with these attributes."""
        create = self._client.create_multipart_upload
        self.upload_id = self._ask("cannot begin the upload", create, ("UploadId",), self._on_late_begin, **attributes)

    def _on_late_begin(self, answer: Mapping[str, Any]) -> None:
        """Record, or abort, an upload whose id arrives late."""
        with self._lock:
            over = self._over
            self.upload_id = None if over else answer.get("UploadId")
        if over and answer.get("UploadId"):
            self._client.abort_multipart_upload(**self._target, UploadId=answer["UploadId"])

    def copy(
        self,
        source: Mapping[str, str],
        condition: str,
        spans: Sequence[tuple[int, int]],
        besides: Sequence[Callable[[], Any]],
    ) -> list[Any]:
        """Copy ranges of the version that the condition names, each into one part.

        Returns
        -------
        The results of the calls `besides`, which run concurrently.
        """

        def part(number: int, start: int, end: int) -> dict[str, Any]:
            etag = self._ask(
                "cannot copy its data",
                self._client.upload_part_copy,
                ("CopyPartResult", "ETag"),
                self._on_late_part,
                UploadId=self.upload_id,
                PartNumber=number,
                CopySource=dict(source),
                CopySourceIfMatch=condition,
                CopySourceRange=f"bytes={start}-{end - 1}",
            )
            return {"PartNumber": number, "ETag": etag}

        parts = [partial(part, number, *span) for number, span in enumerate(spans, len(self._parts) + 1)]
        answers = self._requests.together([*parts, *besides])
        self._parts.extend(answers[: len(parts)])
        return answers[len(parts) :]

    def send(self, data: bytes) -> None:
        """Upload the next part."""
        number = len(self._parts) + 1
        etag = self._ask(
            "cannot upload the filters",
            self._client.upload_part,
            ("ETag",),
            self._on_late_part,
            UploadId=self.upload_id,
            PartNumber=number,
            Body=data,
            ContentMD5=digest(data),
        )
        self._parts.append({"PartNumber": number, "ETag": etag})

    def _on_late_part(self, answer: Mapping[str, Any]) -> None:
        """Abort again: a part that arrives during an abort may be kept."""
        with self._lock:
            upload_id = self._aborted if self._over else None
        if upload_id is not None:
            self._client.abort_multipart_upload(**self._target, UploadId=upload_id)

    def completion_arguments(self) -> dict[str, Any]:
        """Return the arguments of the request that completes it."""
        return {"UploadId": self.upload_id, "MultipartUpload": {"Parts": self._parts}}

    def abort(self) -> None:
        """Abort the upload, if it was begun, within the remaining time; a failure is reported in `leftover`."""
        with self._lock:
            upload_id, self.upload_id, self._over = self.upload_id, None, True
            self._aborted = upload_id or self._aborted
        if upload_id is None:
            return
        end = self._requests.end_of_clearing()
        try:
            self._requests.clear_up(self._client.abort_multipart_upload, end, **self._target, UploadId=upload_id)
        except failure_types() as error:
            if http_status(error) != 404:
                self.leftover = f"an unfinished upload, {upload_id}, may be left"

    def _ask(
        self,
        action: str,
        request: Callable[..., Any],
        fields: Sequence[str],
        late: Callable[[Any], None],
        **arguments: Any,
    ) -> Any:
        """Make a request and return a field of the response; signs of another writer raise ConcurrentChangeError."""
        try:
            answer = self._requests.send(request, late, **self._target, **arguments)
        except failure_types() as error:
            raise self._convert_error(error, action) from error
        for field in fields:  # a proxy may return a successful response without the field
            if field not in answer:
                raise StorageError(f"{action}: the response has no {field}", path=self._path)
            answer = answer[field]
        return answer

    def _convert_error(self, error: Exception, action: str) -> ParquetBloomError:
        converted = make_request_error(error, action, self._path)
        return (
            converted
            if isinstance(converted, StorageError)
            else type(converted)(converted.problem, path=self._read_from)
        )


def digest(data: bytes) -> str:
    """Return the MD5 of data for the header Content-MD5."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode("ascii")


def add_to_error(error: BaseException, text: str) -> None:
    """Append a text to an error that is being handled."""
    if isinstance(error, ParquetBloomError):
        error.problem += f"; {text}"
    else:
        error.add_note(text)
