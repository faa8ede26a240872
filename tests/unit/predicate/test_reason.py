"""Reasons are messages that keep their kind and column, through pickle as well."""

from __future__ import annotations

import pickle

from parquet_bloom.predicate.reason import IGNORED, MISSING, UNDECIDED, Reason, make_ignored


def test_a_reason_is_its_message() -> None:
    reason = Reason("its filter is broken", column="id: a")
    assert (reason, reason.kind, reason.column) == ("'id: a': its filter is broken", UNDECIDED, "id: a")
    assert Reason("it cannot be read").column is None


def test_pickle_keeps_kind_and_column() -> None:
    for reason in (Reason("the file has no such column", MISSING, "id"), Reason("it cannot be read")):
        copy = pickle.loads(pickle.dumps(reason))
        assert (copy, copy.kind, copy.column) == (reason, reason.kind, reason.column)


def test_ignored_keeps_the_kind_of_a_reason() -> None:
    missing = make_ignored(Reason("the file has no such column", MISSING), "id")
    assert (missing, missing.kind, missing.column) == ("'id': the file has no such column", MISSING, "id")
    assert make_ignored("INT96 may be truncated", "ts").kind == IGNORED
