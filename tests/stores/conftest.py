"""Stores on loopback, each started when a test first asks for it by its name: `store`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# Tests import servers, proxy and races by these names.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import races
import servers
from proxy import proxied


@pytest.fixture(scope="session")
def start_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], servers.Store]]:
    """Each store at most once: ``start_store("radosgw")``. One that is not installed skips, in CI too.

    The other peers of the tests come from PyPI; these are servers of a distribution, which not every machine has.
    """
    with ExitStack() as stack:
        running: dict[str, servers.Store | str] = {}

        def start(name: str) -> servers.Store:
            if name not in running:
                try:
                    begun = servers.running(name, lambda: tmp_path_factory.mktemp(name))
                    running[name] = stack.enter_context(begun)
                except servers.NotInstalled as error:
                    running[name] = str(error)
            store = running[name]
            if isinstance(store, str):
                pytest.skip(store)
            return store

        yield start


@pytest.fixture
def store(request: pytest.FixtureRequest, start_store: Callable[[str], servers.Store]) -> servers.Store:
    """The store that a test is parametrized with, by its name."""
    return start_store(request.param)


@pytest.fixture
def field(store: servers.Store, tmp_path: Path) -> Iterator[races.Field]:
    """Races on a store, through a proxy."""
    with proxied(store.endpoint) as proxy:
        yield races.Field(store, proxy, tmp_path)
