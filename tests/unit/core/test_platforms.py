"""Which kernels are built for which processor, and what each primitive of an instruction set computes."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parquet_bloom.core.cpu import instruction_sets

PROJECT = Path(__file__).resolve().parents[3]
X86 = ["avx2", "avx512"]
NEON = ["neon"]
CROSS = "aarch64-linux-gnu-gcc"
EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")


def setup_py(monkeypatch: pytest.MonkeyPatch, platform: str) -> dict:
    """Return the names of setup.py, as it is when `platform` is built for: Python's variable for cross-compilers."""
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("_PYTHON_HOST_PLATFORM", platform)
    return runpy.run_path("setup.py", run_name="setup")


@pytest.mark.ci
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has only the base kernels")
@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux-x86_64", X86),
        ("macosx-10.13-x86_64", X86),
        ("linux-aarch64", NEON),
        ("macosx-11.0-arm64", NEON),
        ("macosx-10.13-universal2", []),
        ("linux-riscv64", []),
    ],
)
def test_the_kernels_are_those_of_the_processor_that_is_built_for(platform, expected, monkeypatch):
    built = [module.name for module in setup_py(monkeypatch, platform)["extensions"]()]
    kernels = {name.rpartition(".")[2] for name in built if ".kernels." in name}
    assert kernels == {"base", *expected}
    assert "parquet_bloom.core.cpu" in built


@pytest.mark.ci
@pytest.mark.parametrize("name", [*X86, *NEON])
def test_each_primitive_equals_plain_c(name, tmp_path, monkeypatch):

    def runner(name: str) -> tuple[str, list[str]]:
        """Return the compiler for an instruction set, and what runs its programs; skip the test without them."""
        if name in instruction_sets() and (compiler := shutil.which("gcc") or shutil.which("clang")):
            return compiler, []
        emulator = next(filter(None, map(shutil.which, EMULATORS)), None)
        if name not in NEON or not emulator or not shutil.which(CROSS):
            pytest.skip(f"needs a processor with {name}, or for NEON {CROSS} and {EMULATORS[0]}")
        return CROSS, [emulator]

    compiler, run = runner(name)
    flags = setup_py(monkeypatch, "linux-aarch64" if name in NEON else "linux-x86_64")["kernel_flags"]()[name]
    include, source = PROJECT / "parquet_bloom" / "core" / "include", Path(__file__).with_name("primitives.c")
    static = ["-static"] if run else []  # an emulator would not know where the libraries are
    program = tmp_path / "primitives"
    command = [compiler, "-O3", "-Wall", "-Wextra", "-Werror", *static, *flags, f"-I{include}", source, "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([*run, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(part.split("=") for part in done.stdout.split())
    left_to_scalar_loops = {primitive for primitive, count in counts.items() if count == "0"}
    assert left_to_scalar_loops == ({"hash4", "hash8", "hash_spans"} if name in NEON else set())
