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


_Known = dict[tuple[object, ...], "Future[Any]"]
_KNOWN: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()  # a client has an endpoint and credentials
_LOCK = threading.Lock()
_LOOK_SECONDS = 0.1  # between looks at whether the work was given up


def prove_put(setting: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
    """Show that one PUT replaces an object only if it is the one that is named; see `prove_upload`."""
    return _once(setting, ("put", *sorted(given)), lambda: _on_probe(setting, proof.prove_put, given))


def prove_upload(setting: ProofContext, given: Mapping[str, Any]) -> ConditionSupport:
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
    return _once(setting, ("upload", *sorted(given)), lambda: _on_probe(setting, proof.prove_upload, given))


def prove_no_tags(setting: ProofContext) -> None:
    """Show that answers without a TagSet are this store's way to say that there are no tags."""
    _once(setting, ("no tags",), lambda: _on_probe(setting, proof.prove_no_tags))


def _on_probe(setting: ProofContext, show: Callable[..., Any], *given: Any) -> Any:
    with Probe(setting.client, setting.requests, setting.bucket, setting.key, setting.path) as probe:
        return show(probe, *given)


def _once(setting: ProofContext, name: tuple[object, ...], prove: Callable[[], Any]) -> Any:
    """Prove it, or wait for who is proving it, or remember."""
    key = (setting.bucket, *name)
    while True:
        with _LOCK:
            known = _KNOWN.setdefault(setting.client, {})
            found = known.get(key)
            if found is None:
                mine = known[key] = Future[Any]()
        if found is None:
            return _settle(known, key, mine, setting, prove)
        while not wait((found,), _LOOK_SECONDS).done:
            threads.raise_if_stopped()
        error = found.exception()
        if error is None:
            return found.result()
        if isinstance(error, UnsupportedStoreError):
            raise StorageError(str(error), path=setting.path)
        if isinstance(error, StorageError):
            raise StorageError(error.problem, path=setting.path, errno=error.errno)


def _settle(
    known: _Known, key: tuple[object, ...], mine: Future[Any], setting: ProofContext, prove: Callable[[], Any]
) -> Any:
    try:
        result = prove()
    except UnsupportedStoreError as error:
        mine.set_exception(error)
        raise StorageError("; ".join([str(error), *getattr(error, "__notes__", ())]), path=setting.path) from error
    except BaseException as error:
        with _LOCK:
            del known[key]
        mine.set_exception(error)
        raise
    mine.set_result(result)
    return result
