"""Limits on the time and retries of requests to object stores."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, NamedTuple

LIST_PAGE = 1000  # keys in one response to a listing

_UNITS = {
    **dict.fromkeys(("ms", "msec", "millis"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", ""), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)")


class RequestLimits(NamedTuple):
    """Limits of one store; times are in seconds.

    Attributes
    ----------
    timeout : time for one try, from the first byte of the request to the last byte of the response.
    connect_timeout : time to connect.
    max_retries : number of retries of a failed request.
    init_backoff, max_backoff : the first and the longest pause between two tries; pauses double.
    retry_timeout : time for all tries of one request, after which it fails.
    """

    timeout: float = 30.0
    connect_timeout: float = 5.0
    max_retries: int = 6
    init_backoff: float = 0.1
    max_backoff: float = 5.0
    retry_timeout: float = 60.0

    @classmethod
    def from_store(cls, store: Any) -> RequestLimits:
        """Read the limits of an obstore store; missing ones have their defaults."""
        client = getattr(store, "client_options", None) or {}
        retry = getattr(store, "retry_config", None) or {}
        backoff = retry.get("backoff") or {}
        given: dict[str, Any] = {name: client[name] for name in ("timeout", "connect_timeout") if name in client}
        given |= {name: backoff[name] for name in ("init_backoff", "max_backoff") if name in backoff}
        given |= {name: retry[name] for name in ("retry_timeout",) if name in retry}
        limits: dict[str, Any] = {name: seconds(value) for name, value in given.items()}
        if "max_retries" in retry:
            limits["max_retries"] = int(retry["max_retries"])
        return cls(**limits)

    def pause(self, tries: int) -> float:
        """Return the longest time to wait after a number of failed tries."""
        return min(self.max_backoff, self.init_backoff * 2.0 ** min(tries - 1, 30))


def seconds(value: Any) -> float:
    """Return a duration in seconds: a number, a timedelta, or text such as "30s", "500ms" or "1 minute 30s".

    Raises
    ------
    ValueError
        If the value is none of these.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float):
        return float(value)
    text = str(value).strip().lower()
    parts = [*_PART.finditer(text)]
    if not parts or "".join(part[0] for part in parts) != text or any(part[2] not in _UNITS for part in parts):
        raise ValueError(f"{value!r} is not a duration such as 30, '30s' or '500ms'")
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)
