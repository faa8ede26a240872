"""Threads: waiting for results, and giving up."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from parquet_bloom.util.threads import Stopped, in_order, raise_if_stopped

_SCRIPT = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import polars
from parquet_bloom.util.threads import in_order, raise_if_stopped

def work(number):
    end = time.monotonic() + 300
    while time.monotonic() < end:
        time.sleep(0.01)
        raise_if_stopped()

threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try:
    with in_order(work, range(4), 2) as results:
        list(results)
except KeyboardInterrupt:
    print(time.monotonic() - begun)
"""


def test_an_interrupt_is_noticed_beside_polars() -> None:
    pytest.importorskip("polars")  # which catches signals so that waits without an end go on
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=600, check=True)
    assert float(done.stdout) < 60  # of 300: a busy machine may take its time


def test_work_that_nobody_waits_for_is_given_up() -> None:
    begun = threading.Event()
    given_up: list[int] = []

    def work(number: int) -> None:
        begun.set()
        try:
            for _ in range(1000):
                raise_if_stopped()
                time.sleep(0.01)
        except Stopped:
            given_up.append(number)
            raise

    with in_order(work, range(3), 1):
        begun.wait()
    assert given_up == [0]
