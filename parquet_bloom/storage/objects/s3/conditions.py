"""Proof that a store keeps its word: of each condition that a way of writing relies on, before anything is written.

Some stores that speak S3's protocol take conditions and do not heed them, or in one spelling of the etag only, or
refuse the right one. Each shows on a `Probe` what it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ....errors import StorageError
from ....util import threads
from . import proof
from .probe import Probe
from .proof import ConditionSupport, UnsupportedStoreError
from .requests import Requests


class ProofContext(NamedTuple):
    """What a proof is made with.

    Attributes
    ----------
    client, requests : by which the store is asked.
    bucket, key : of the object that is to be written.
    path : of that, for errors.
    """

    client: Any
    requests: Requests
    bucket: str
    key: str
    path: str


_ProofCache = dict[tuple[object, ...], "Future[Any]"]
_PROOFS: WeakKeyDictionary[Any, _ProofCache] = WeakKeyDictionary()  # a client has an endpoint and credentials
_LOCK = threading.Lock()
_POLL_SECONDS = 0.1  # between looks at whether the work was given up


def prove_put(context: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
    """Show that one PUT replaces an object only if it is the one that is named; see `prove_upload`."""
    return _prove_once(context, ("put", *sorted(given)), lambda: _show_on_probe(context, proof.prove_put, given))


def prove_upload(context: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
    """Show that an upload in parts copies from, and replaces, only the version that is named.

    Parameters
    ----------
    given : what the new object is to have beside its bytes; that the store keeps such things is shown, too.

    Raises
    ------
    StorageError
        If the store does not do so, or it cannot be shown. This is remembered, for the process, if it is the store's
        way and no mishap.
    """
    return _prove_once(context, ("upload", *sorted(given)), lambda: _show_on_probe(context, proof.prove_upload, given))


def prove_no_tags(context: ProofContext) -> None:
    """Show that answers without a TagSet are this store's way to say that there are no tags."""
    _prove_once(context, ("no tags",), lambda: _show_on_probe(context, proof.prove_no_tags))


def _show_on_probe(context: ProofContext, show: Callable[..., Any], *given: Any) -> Any:
    with Probe(context.client, context.requests, context.bucket, context.key, context.path) as probe:
        return show(probe, *given)


def _prove_once(context: ProofContext, name: tuple[object, ...], prove: Callable[[], Any]) -> Any:
    """Prove it, or wait for who is proving it, or remember."""
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
