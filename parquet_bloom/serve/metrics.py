"""Counts of the service in Prometheus' text format, version 0.0.4.

The format is a few lines of text, so it is written here: the client library would add a registry for the whole process,
and thread-safety that is not needed, as everything is counted on the event loop.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PREFIX = "parquet_bloom_"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

# Upper bounds in seconds: a lookup in memory takes milliseconds, one in an object store 30 seconds at most.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counter:
    """A number that only grows, one for each combination of label values.

    Parameters
    ----------
    name : without the package's prefix.
    text : what it counts.
    labels : names of its labels.
    """

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()):
        self._name = _PREFIX + name
        self._text = text
        self._labels = labels
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, amount: float = 1, *labels: str) -> None:
        """Add to the number with these label values."""
        self._values[labels] = self._values.get(labels, 0) + amount

    def lines(self) -> Iterator[str]:
        yield from _head(self._name, self.kind, self._text)
        for labels, value in self._values.items():
            yield _sample(self._name, dict(zip(self._labels, labels, strict=True)), value)


class Histogram:
    """Counts of durations by upper bounds, one set for each value of a label.

    Parameters
    ----------
    name, text : as of a `Counter`.
    label : name of the label.
    bounds : upper bounds in seconds, ascending.
    """

    def __init__(self, name: str, text: str, label: str, bounds: Sequence[float] = _SECONDS):
        self._name = _PREFIX + name
        self._text = text
        self._label = label
        self._bounds = bounds
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, seconds: float, label: str) -> None:
        """Count one duration."""
        counts = self._counts.setdefault(label, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[label] = self._sums.get(label, 0.0) + seconds

    def lines(self) -> Iterator[str]:
        yield from _head(self._name, "histogram", self._text)
        for label, counts in self._counts.items():
            total = 0
            for bound, count in zip([*map(repr, self._bounds), "+Inf"], counts, strict=True):
                total += count
                yield _sample(self._name + "_bucket", {self._label: label, "le": bound}, total)
            yield _sample(self._name + "_sum", {self._label: label}, self._sums[label])
            yield _sample(self._name + "_count", {self._label: label}, total)


class Metrics:
    """What the service has done since it began. Not thread-safe: to be used on the event loop."""

    def __init__(self) -> None:
        labels = ("method", "path", "code")
        self.requests = Counter(
            "http_requests_total", "Requests answered, by status; path none is no valid HTTP request.", labels
        )
        self.seconds = Histogram("http_request_duration_seconds", "Seconds until a request was answered.", "path")
        self.received = Counter("http_request_bytes_total", "Bytes of bodies received.", ("path",))
        self.sent = Counter("http_response_bytes_total", "Bytes of bodies sent.", ("path",))
        self.lookups = Counter("lookups_total", "Lookups answered, each of one value or of many.")
        self.values = Counter("lookup_values_total", "Values looked up.")
        self.candidates = Counter("lookup_candidates_total", "Files named, of all values together.")
        self.doubts = Counter("lookup_doubts_total", "Reasons given for naming more files than necessary.")
        self.gets = Counter("gets_total", "Requests for rows answered.")
        self.keys = Counter("get_keys_total", "Keys whose rows were requested.")
        self.rows = Counter("get_rows_total", "Rows given.")
        self.appended = Counter("appended_files_total", "Files indexed, for the first time or again.")
        self.removed = Counter("removed_files_total", "Files removed from the index.")
        self.refreshes = Counter("refreshes_total", "Refreshes of the index and the lake.", ("result",))
        for result in ("ok", "failed"):
            self.refreshes.add(0, result)  # so that the first failure is an increase

    def encode(self, gauges: Mapping[str, tuple[str, float | None]]) -> bytes:
        """Return everything as text.

        Parameters
        ----------
        gauges : values of this moment: {name: (what it is, value)}; None for one that is not known, which is left out.
        """
        lines = [line for family in vars(self).values() for line in family.lines()]
        for name, (text, value) in gauges.items():
            if value is not None:
                lines += [*_head(_PREFIX + name, "gauge", text), _sample(_PREFIX + name, {}, value)]
        return ("\n".join(lines) + "\n").encode()


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
    return f"{name}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}"


_METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH")
_OTHER = "other"  # clients choose methods and paths, and each label value takes memory


class RequestMetrics:
    """Wraps an application, and counts its requests, their bytes and their time.

    Parameters
    ----------
    app : the application.
    metrics : where to count.
    paths : paths that are counted by name.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]):
        self._app = app
        self._metrics = metrics
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._paths else _OTHER
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        start = time.perf_counter()
        status = received = sent = 0

        async def counting_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message

        async def counting_send(message: Message) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, counting_receive, counting_send)
        finally:
            metrics = self._metrics
            metrics.requests.add(1, method, path, str(status or 500))
            metrics.seconds.observe(time.perf_counter() - start, path)
            metrics.received.add(received, path)
            metrics.sent.add(sent, path)
