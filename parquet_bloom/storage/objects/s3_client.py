"""Creation of a boto3 client for the store that obstore reads from, and conversion of its errors."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ... import errors
from ...util.lazy import late_module
from ...util.releases import is_older
from .request_limits import RequestLimits

if TYPE_CHECKING:
    import botocore
    import botocore.config as boto_config
    import botocore.exceptions as boto_errors
    import botocore.parsers as boto_parsers
else:
    botocore = late_module("botocore")
    boto_config, boto_errors = late_module("botocore.config"), late_module("botocore.exceptions")
    boto_parsers = late_module("botocore.parsers")

PARALLEL_REQUESTS = 8

# Libraries use several names for each option; all may begin with aws_, in any case.
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
# Variables for missing options. Credentials are not among them: boto3 finds these itself.
_FROM_ENVIRONMENT = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "virtual_hosted": ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST",),
    "anonymous": ("AWS_SKIP_SIGNATURE",),
}
# Options of obstore that do not matter for multipart copies; times are in the limits.
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
_MIN_TIMEOUT = 0.001  # seconds; sockets take 0 for non-blocking


def connect(bucket: str, options: Mapping[str, Any], path: str, limits: RequestLimits = _LIMITS) -> Any:
    """Create a client for a bucket, once for equal options. It does not retry: `Requests` does.

    Parameters
    ----------
    bucket : name of the bucket.
    options : options under the names of obstore; missing ones come from the environment, and credentials from the
        sources of boto3.
    path : path of the object, for errors.
    limits : time limits for connections and responses.

    Raises
    ------
    StorageError
        If boto3 is not installed, or does not support an option.
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
    # A changed environment or a fork needs a new client.
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    expected_errors: tuple[type[Exception], ...] = (
        *failure_types(),
        ValueError,
    )  # for example if the endpoint is not a URL
    try:
        with _LOCK:  # concurrent threads share one client, too
            return _client(tuple(sorted(given.items())), environment, os.getpid(), limits)
    except expected_errors as error:
        raise make_error(error, "cannot make an S3 client", path) from error


class NoS3AnswerError(Exception):
    """No response to a request within its time limit."""


def failure_types() -> tuple[type[Exception], ...]:
    """Return the errors that a request raises: no response, an error response, or an unreadable response."""
    return boto_errors.BotoCoreError, boto_errors.ClientError, boto_parsers.ResponseParserError, NoS3AnswerError


def make_error(error: Exception, action: str, path: str) -> errors.StorageError:
    """Convert the error of a request to a StorageError: `path: action: reason`."""
    body = _get_response(error).get("Error", {})
    reason = ": ".join(dict.fromkeys(text for text in (body.get("Code"), body.get("Message")) if text))
    number = {403: errno.EACCES, 404: errno.ENOENT}.get(http_status(error))
    if isinstance(error, NoS3AnswerError):
        number = errno.ETIMEDOUT
    return errors.StorageError(f"{action}: {reason or error}", path=path, errno=number)


def http_status(error: Exception) -> int:
    """Return the HTTP status of an error response; 0 without a response."""
    return int(_get_response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def error_code(error: Exception) -> str:
    """Return the S3 error code; empty without a response."""
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
            text = f"the option {name!r} is not supported for embedding in place; give an output elsewhere"
            raise errors.StorageError(text, path=path)
    return given


def _require_boto3(path: str) -> None:
    text = "embedding in place on S3 needs boto3 1.36 or newer: pip install 'parquet-bloom[s3]'"
    try:
        import boto3
    except ImportError:
        raise errors.StorageError(text, path=path) from None
    if is_older(boto3.__version__, "1.36"):  # the first one that can omit checksums that other stores do not support
        raise errors.StorageError(text, path=path)


def _strip_bucket(endpoint: str, bucket: str, path: str) -> str:
    """Return the endpoint without the bucket, which boto3 puts before the host itself."""
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

    options = dict(given)
    style = "auto"
    if options.get("endpoint"):
        style = "path"
    if _is_true(options.get("virtual_hosted")):
        style = "virtual"
    # Uploads have digests from this package; not every store supports those that boto3 adds.
    config = boto_config.Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=2 * PARALLEL_REQUESTS,
        connect_timeout=max(limits.connect_timeout, _MIN_TIMEOUT),
        read_timeout=max(limits.timeout, _MIN_TIMEOUT),
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": style},
        proxies={"http": options["proxy"], "https": options["proxy"]} if "proxy" in options else None,
        signature_version=botocore.UNSIGNED if _is_true(options.get("anonymous")) else None,
    )
    # A separate session, because the default session of boto3 is not thread-safe.
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
