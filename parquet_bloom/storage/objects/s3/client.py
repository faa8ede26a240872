"""A boto3 client that speaks to the store that obstore reads from, and its errors as ours."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from .... import errors
from ..limits import RequestLimits

PARALLEL_REQUESTS = 8

# Options have several names each in object stores' libraries; all may begin with aws_, in small or capital letters.
_NAMES = {
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "session_token",
    "token": "session_token",
    "region": "region",
    "default_region": "region",
    "endpoint": "endpoint",
    "endpoint_url": "endpoint",
    "endpoint_url_s3": "endpoint",
    "virtual_hosted_style_request": "virtual_hosted",
    "skip_signature": "anonymous",
    "allow_invalid_certificates": "any_certificate",
    "proxy_url": "proxy",
}
# The environment counts where no option is given. Credentials are left out: boto3 finds these, and more, by itself.
_FROM_ENVIRONMENT = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "virtual_hosted": ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST",),
    "anonymous": ("AWS_SKIP_SIGNATURE",),
}
# These say how obstore does things, and change nothing for who writes by multipart copy; times are in the limits.
_IGNORED = {
    "allow_http",
    "bucket",
    "checksum_algorithm",
    "conditional_put",
    "connect_timeout",
    "copy_if_not_exists",
    "disable_bulk_delete",
    "disable_tagging",
    "http1_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_only",
    "imdsv1_fallback",
    "metadata_endpoint",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "randomize_addresses",
    "read_timeout",
    "timeout",
    "unsigned_payload",
    "user_agent",
}

_LIMITS = RequestLimits()
_LOCK = threading.Lock()
_MIN_TIMEOUT = 0.001  # seconds; to sockets 0 says that they never wait


def connect(bucket: str, options: Mapping[str, Any], path: str, limits: RequestLimits = _LIMITS) -> Any:
    """Make a client for a bucket; once for equal options. It tries each request once: `Requests` tries again.

    Parameters
    ----------
    bucket : its name.
    options : under obstore's names; whatever is not given comes from the environment, and credentials from wherever
        boto3 finds some.
    path : of the object concerned, for errors.
    limits : how long it waits for connections and answers.

    Raises
    ------
    StorageError
        if boto3 is not here, or an option is one that it cannot follow.
    """
    given = _parse_options(options, path)
    for name, variables in _FROM_ENVIRONMENT.items():
        value = next((os.environ[variable] for variable in variables if os.environ.get(variable)), None)
        if value is not None:
            given.setdefault(name, value)
    _require_boto3(path)
    endpoint = given.get("endpoint")
    if endpoint and _is_true(given.get("virtual_hosted")):
        given["endpoint"] = _strip_bucket(endpoint, bucket, path)
    # Who changes the environment, or forks, gets another client.
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    expected_errors: tuple[type[Exception], ...] = (*failure_types(), ValueError)  # an endpoint that is no URL, for one
    try:
        with _LOCK:  # threads that come at once get one, too
            return _client(tuple(sorted(given.items())), environment, os.getpid(), limits)
    except expected_errors as error:
        raise make_error(error, "cannot make an S3 client", path) from error


class NoAnswerError(Exception):
    """The time for a request is over, and no answer has come."""


def failure_types() -> tuple[type[Exception], ...]:
    """What a request raises: no answer, an answer that is an error, an answer that cannot be read."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return BotoCoreError, ClientError, ResponseParserError, NoAnswerError


def make_error(error: Exception, action: str, path: str) -> errors.StorageError:
    """What a request raised, as ours: `path: action: reason`."""
    body = _get_response(error).get("Error", {})
    reason = ": ".join(dict.fromkeys(text for text in (body.get("Code"), body.get("Message")) if text))
    number = {403: errno.EACCES, 404: errno.ENOENT}.get(http_status(error))
    if isinstance(error, NoAnswerError):
        number = errno.ETIMEDOUT
    return errors.StorageError(f"{action}: {reason or error}", path=path, errno=number)


def http_status(error: Exception) -> int:
    """The HTTP status of an answer that was an error; 0 if there was no answer."""
    return int(_get_response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def error_code(error: Exception) -> str:
    """S3's name of the error; empty if there was no answer."""
    return str(_get_response(error).get("Error", {}).get("Code", ""))


def _get_response(error: Exception) -> dict[str, Any]:
    answer = getattr(error, "response", None)
    return answer if isinstance(answer, dict) else {}


def _parse_options(options: Mapping[str, Any], path: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in options.items():
        short = name.lower().removeprefix("aws_")
        if short in _NAMES:
            given.setdefault(_NAMES[short], str(value))
        elif short not in _IGNORED:
            text = f"the option {name!r} is not understood for embedding in place; give an output elsewhere"
            raise errors.StorageError(text, path=path)
    return given


def _require_boto3(path: str) -> None:
    text = "embedding in place on S3 needs boto3 1.36 or newer: pip install 'parquet-bloom[s3]'"
    try:
        import boto3
    except ImportError:
        raise errors.StorageError(text, path=path) from None
    version = [int(number) for number in re.findall(r"\d+", boto3.__version__)[:2]]
    if version < [1, 36]:  # the first one that is able to leave out the checksums that other stores do not know
        raise errors.StorageError(text, path=path)


def _strip_bucket(endpoint: str, bucket: str, path: str) -> str:
    """The endpoint as boto3 wants it: it puts the bucket before the host itself."""
    url = urlsplit(endpoint)
    if not url.netloc.startswith(f"{bucket}."):
        text = f"the endpoint {endpoint} does not begin with the bucket's name, as virtual_hosted_style_request has it"
        raise errors.StorageError(text, path=path)
    return url._replace(netloc=url.netloc.removeprefix(f"{bucket}.")).geturl()


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() in ("1", "true", "on", "yes", "y")


@lru_cache(maxsize=8)
def _client(
    given: tuple[tuple[str, str], ...], environment: tuple[tuple[str, str], ...], pid: int, limits: RequestLimits
) -> Any:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    options = dict(given)
    style = "auto"
    if options.get("endpoint"):
        style = "path"
    if _is_true(options.get("virtual_hosted")):
        style = "virtual"
    # Digests of ours go with what is uploaded; those that boto3 adds by itself not every store understands.
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=2 * PARALLEL_REQUESTS,
        connect_timeout=max(limits.connect_timeout, _MIN_TIMEOUT),
        read_timeout=max(limits.timeout, _MIN_TIMEOUT),
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": style},
        proxies={"http": options["proxy"], "https": options["proxy"]} if "proxy" in options else None,
        signature_version=UNSIGNED if _is_true(options.get("anonymous")) else None,
    )
    # A session of its own: boto3's default one is not made for several threads.
    return boto3.session.Session().client(
        "s3",
        endpoint_url=options.get("endpoint"),
        region_name=options.get("region"),
        aws_access_key_id=options.get("access_key_id"),
        aws_secret_access_key=options.get("secret_access_key"),
        aws_session_token=options.get("session_token"),
        verify=False if _is_true(options.get("any_certificate")) else None,
        config=config,
    )
