"""Build, start and query the programs that the kernel benchmark compares (see kernels_peer.h for the protocol)."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
JAVA_OPTIONS = ("-Xms4g", "-Xmx4g", "-XX:+UseParallelGC")


class Peer:
    """A process that runs commands, and returns their times.

    Attributes
    ----------
    name : its name in the tables.
    fills : whether it builds a filter whose bits and answers can be compared.
    """

    def __init__(
        self, name: str, command: Sequence[str], fills: bool = True, environment: dict[str, str] | None = None
    ):
        self.name = name
        self.fills = fills
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=PROJECT,
            env={**os.environ, **(environment or {})},
        )

    def ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\t".join(map(str, words)) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().rstrip("\n")
        except BrokenPipeError:
            answer = ""
        if not answer or answer.startswith("error"):
            raise SystemExit(f"{self.name} did not {words[0]}: {answer or 'it ended'}")
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def ours(simd: str) -> Peer:
    """parquet_bloom on one path of its kernels, which is also its name."""
    return Peer(simd, [sys.executable, str(HERE / "_ours.py")], environment={"PARQUET_BLOOM_SIMD": simd})


def arrow(folder: Path, mode: str) -> Peer:
    """Arrow C++ from the pyarrow wheel, hashing keys by `batch` or `single`."""
    program = folder / "kernels_arrow"
    if not program.exists():
        libraries = Path(pa.get_library_dirs()[0])
        shared = [str(next(libraries.glob(f"{name}.so.*"))) for name in ("libparquet", "libarrow")]
        flags = [f"-I{pa.get_include()}", *shared, f"-Wl,-rpath,{libraries}"]
        _compile("kernels_arrow.cpp", program, flags)
    return Peer(f"Arrow {mode}", [str(program), mode])


def limit(folder: Path, mode: str) -> Peer:
    """The minimum work of a filter with the best instruction set of this machine: `read` a block, or also `mask` it."""
    program = folder / "kernels_limit"
    if platform.machine() != "x86_64":
        raise FileNotFoundError("the limit is written for x86-64")
    if not program.exists():
        includes = [f"-I{PROJECT / 'parquet_bloom' / 'core' / 'include'}", f"-I{pa.get_include()}"]
        _compile("kernels_limit.cpp", program, ["-march=native", *includes])
    return Peer(f"limit {mode}", [str(program), mode], fills=False)


def java() -> Peer:
    """parquet-java from the pyspark wheel."""
    try:
        import pyspark
    except ImportError:
        raise FileNotFoundError("pyspark is not installed, whose jars have it") from None
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if program is None:
        raise FileNotFoundError("there is no Java; on Debian: apt-get install openjdk-17-jdk-headless")
    modules = subprocess.run([program, "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler" not in modules:
        raise FileNotFoundError("this Java cannot compile; on Debian: apt-get install openjdk-17-jdk-headless")
    jars = str(Path(pyspark.__file__).with_name("jars") / "*")
    return Peer("parquet-java", [program, *JAVA_OPTIONS, "-cp", jars, str(HERE / "KernelsJava.java")])


def available(start: Callable[[], Peer], what: str) -> list[Peer]:
    """Return the peer in a list; after printing the reason, an empty list if it cannot be started."""
    try:
        return [start()]
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        problem = str(getattr(error, "stderr", "") or error).strip().splitlines()[0]
        print(f"left out {what}: {problem.replace(f'{HERE}{os.sep}', '')}")
        return []


def _compile(source: str, program: Path, flags: Sequence[str]) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise FileNotFoundError("there is no C++ compiler; on Debian: apt-get install g++")
    command = [compiler, "-std=c++20", "-O3", "-pthread", str(HERE / source), "-o", str(program), *flags]
    subprocess.run(command, check=True, capture_output=True, text=True)
