"""Proof that a store honours the conditions that a write relies on, before anything is written.

Some S3-compatible stores accept conditions and ignore them, or honour only one spelling of the etag, or refuse the
right etag. Each store must show on a `Probe` what it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...errors import StorageError
from ...util import threads
from . import store_proofs
from .s3_requests import Requests
from .store_proofs import ConditionSupport, Probe, UnsupportedStoreError


class ProofContext(NamedTuple):
    """Context of a proof.

    Attributes
    ----------
    client, requests : for requests to the store.
    bucket, key : of the object to write.
    path : path of that object, for errors.
    """

    client: Any
    requests: Requests
    bucket: str
    key: str
    path: str


_ProofCache = dict[tuple[object, ...], "Future[Any]"]
_PROOFS: WeakKeyDictionary[Any, _ProofCache] = WeakKeyDictionary()  # by client, which has an endpoint and credentials
_LOCK = threading.Lock()
_POLL_SECONDS = 0.1  # between checks whether the work was cancelled


def prove_put(context: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
    """Check that a PUT replaces only the version that its condition names; see `prove_upload`."""
    return _prove_once(context, ("put", *sorted(given)), lambda: _show_on_probe(context, store_proofs.prove_put, given))


def prove_upload(context: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
    """Check that a multipart upload copies from, and replaces, only the version that its conditions name.

    Parameters
    ----------
    given : attributes of the new object; it is also checked that the store keeps them.

    Raises
    ------
    StorageError
        If the store does not, or this cannot be checked. If the store does not support it, the result is remembered for
        the process.
    """
    return _prove_once(
        context, ("upload", *sorted(given)), lambda: _show_on_probe(context, store_proofs.prove_upload, given)
    )


def prove_no_tags(context: ProofContext) -> None:
    """Check that this store omits the TagSet in responses if there are no tags."""
    _prove_once(context, ("no tags",), lambda: _show_on_probe(context, store_proofs.prove_no_tags))


def _show_on_probe(context: ProofContext, show: Callable[..., Any], *given: Any) -> Any:
    with Probe(context.client, context.requests, context.bucket, context.key, context.path) as probe:
        return show(probe, *given)


def _prove_once(context: ProofContext, name: tuple[object, ...], prove: Callable[[], Any]) -> Any:
    """Run a proof once: return the earlier result, or wait for the thread that is running it."""
    key = (context.bucket, *name)
    while True:
        with _LOCK:
            proofs = _PROOFS.setdefault(context.client, {})
            pending = proofs.get(key)
            if pending is None:
                future = proofs[key] = Future[Any]()
        if pending is None:
            return _run_proof(proofs, key, future, context, prove)
        while not wait((pending,), _POLL_SECONDS).done:
            threads.raise_if_stopped()
        error = pending.exception()
        if error is None:
            return pending.result()
        if isinstance(error, UnsupportedStoreError):
            raise StorageError(str(error), path=context.path)
        if isinstance(error, StorageError):
            raise StorageError(error.problem, path=context.path, errno=error.errno)


def _run_proof(
    proofs: _ProofCache, key: tuple[object, ...], future: Future[Any], context: ProofContext, prove: Callable[[], Any]
) -> Any:
    try:
        result = prove()
    except UnsupportedStoreError as error:
        future.set_exception(error)
        raise StorageError("; ".join([str(error), *getattr(error, "__notes__", ())]), path=context.path) from error
    except BaseException as error:
        with _LOCK:
            del proofs[key]
        future.set_exception(error)
        raise
    future.set_result(result)
    return result
