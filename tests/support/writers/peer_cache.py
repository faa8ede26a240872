"""Files by other writers, kept from one run of the tests to the next in `.cache/peers`.

A writer's files are kept under its version and under the sources that make them, so that another version, or another
wish, makes them anew. Whoever reads them must not change them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from support.oracle import oracle
from support.writers import peers
from support.writers.peers import PeerFile

PACKAGES = {"pyarrow": "pyarrow", "duckdb": "duckdb", "datafusion": "datafusion", "spark": "pyspark"}
FOLDER = Path(__file__).resolve().parents[3] / ".cache" / "peers"


def key(writer: str, filters: bool) -> str:
    """Name the files of a writer by all that decides what is in them."""
    digest = hashlib.sha256()
    for source in (peers.__file__, oracle.__file__, __file__):
        digest.update(Path(source).read_bytes())
    versions = f"{version(PACKAGES[writer])}-pyarrow-{version('pyarrow')}"  # which makes every writer's tables
    return f"{writer}-{versions}-{'filters' if filters else 'plain'}-{digest.hexdigest()[:16]}"


def files(writer: str, filters: bool, write: Callable[[Path], list[PeerFile]]) -> list[PeerFile]:
    """Return a writer's files, written by `write(folder)` unless an earlier run has kept them.

    Two processes may write the same ones at a time: the first that is done keeps its own.
    """
    folder = FOLDER / key(writer, filters)
    if not folder.is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(dir=FOLDER, prefix="made-"))
        try:
            written = [dataclasses.replace(file, path=Path(file.path.name)) for file in write(directory)]
            (directory / "files.pickle").write_bytes(pickle.dumps(written))
            directory.chmod(0o755)
            os.rename(directory, folder)
        except OSError:
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    retained: list[PeerFile] = pickle.loads((folder / "files.pickle").read_bytes())
    return [dataclasses.replace(file, path=folder / file.path) for file in retained]  # a clone may have been moved
