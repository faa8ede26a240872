"""The extensions and their build switches; everything else about the package is in pyproject.toml.

Switches, read from the environment (set to anything but 0):
    PARQUET_BLOOM_DEBUG     no optimisation, debug symbols, C assertions, bounds checks even where a module has none
    PARQUET_BLOOM_SANITIZE  AddressSanitizer and UndefinedBehaviorSanitizer, or a comma-separated list of sanitizers;
                            `fuzzer` (clang only) adds the coverage that libFuzzer needs. See docs/maintaining.md
                            for how to run the result
    PARQUET_BLOOM_COVERAGE  line tracing, so that coverage's Cython plugin sees the compiled modules

A module that was compiled before, of the same sources and in the same way, is taken from the folder that
PARQUET_BLOOM_BUILD_CACHE names; in a checkout it is .cache/build if the variable names none. Elsewhere nothing is kept.
"""

import functools
import gzip
import hashlib
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

import Cython
from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

PACKAGE = "parquet_bloom"

# Cython's code for memoryviews, compiled once. Otherwise each module has its own copy, which is most of its C code.
SHARED = f"{PACKAGE}.core._cython"
INCLUDE = Path(PACKAGE, "core", "include")

# Flags of the modules for instruction sets, in addition to common ones, by the processor that is built for. Each set
# has its own module, imported only if the processor supports it, so no other module may be compiled with its flags. The
# flags are those of gcc and clang.
KERNELS = {
    "x86_64": {
        "avx2": ["-mavx2", "-DPB_SIMD=PB_AVX2"],
        "avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mbmi2", "-DPB_SIMD=PB_AVX512"],
    },
    "aarch64": {"neon": ["-DPB_SIMD=PB_NEON"]},
}
KERNELS |= {"amd64": KERNELS["x86_64"], "arm64": KERNELS["aarch64"]}
WINDOWS = sys.platform == "win32"


def kernel_flags() -> dict[str, list[str]]:
    """Return the kernel modules for the processor that is built for, here or by a cross-compiler, and their flags.

    Only the base module is built for others, for two at once (macOS universal2), for 32-bit Python, and on Windows,
    where core/cpu.pyx cannot detect the processor's features.
    """
    processor = sysconfig.get_platform().rpartition("-")[2]
    return {} if WINDOWS or sys.maxsize < 2**32 else KERNELS.get(processor, {})


def switch(name: str) -> bool:
    return os.environ.get(f"PARQUET_BLOOM_{name}", "0") not in ("", "0")


def sanitizers() -> list[str]:
    named = os.environ.get("PARQUET_BLOOM_SANITIZE", "0") if switch("SANITIZE") else ""
    names = ["address", "undefined"] if named == "1" else [name for name in named.split(",") if name]
    if unknown := set(names) - {"address", "undefined", "fuzzer"}:
        raise SystemExit(f"PARQUET_BLOOM_SANITIZE names {', '.join(sorted(unknown))}, not address, undefined or fuzzer")
    return ["fuzzer-no-link" if name == "fuzzer" else name for name in names]


DEBUG, SANITIZE, COVERAGE = switch("DEBUG"), sanitizers(), switch("COVERAGE")

# no -march: the base modules must run on every processor of the platform
compile_flags = ["/O2"] if WINDOWS else ["-O2", "-g0"]
# Hashes took 1.4 to 1.6 times as long without; footers took as long, and their module a quarter less to compile.
loop_flags = [] if WINDOWS else ["-O3"]
link_flags: list[str] = []
macros: list[tuple[str, str | None]] = []
directives: dict[str, object] = {"language_level": 3}

if WINDOWS and (DEBUG or SANITIZE):
    raise SystemExit("PARQUET_BLOOM_DEBUG and _SANITIZE are for gcc and clang")
if DEBUG or SANITIZE:
    compile_flags = ["-O0" if DEBUG else "-O1", "-g", "-fno-omit-frame-pointer", "-UNDEBUG"]
    loop_flags = []
if DEBUG:
    directives |= {"boundscheck": True, "initializedcheck": True}
if SANITIZE:
    sanitized = [f"-fsanitize={','.join(SANITIZE)}"]
    compile_flags += [*sanitized, "-fno-sanitize-recover=all"]
    link_flags += sanitized
if COVERAGE:
    directives["linetrace"] = True
    macros += [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")]


def is_loops(module: str) -> bool:
    """Return whether a module's time is spent in loops over many values."""
    return module.startswith(f"{PACKAGE}.core.") and module != SHARED


def extensions() -> list[Extension]:
    sources = sorted(Path(PACKAGE).glob("**/*.pyx"))
    if not sources:
        raise SystemExit(f"no .pyx below {PACKAGE}/: run setup.py in the project's folder, on complete sources")
    names = [".".join(source.with_suffix("").parts) for source in sources]
    all_kernels = {f"{PACKAGE}.core.kernels.{name}" for flags in KERNELS.values() for name in flags}
    if unknown := all_kernels - set(names):
        raise SystemExit(f"KERNELS names modules that do not exist: {', '.join(sorted(unknown))}")
    module_flags = {f"{PACKAGE}.core.kernels.{name}": flags for name, flags in kernel_flags().items()}
    left_out = all_kernels - module_flags.keys()
    # The shared module comes first: it takes longest to compile, in parallel with the others.
    modules = {SHARED: Path(*SHARED.split(".")).with_suffix(".c"), **dict(zip(names, sources, strict=True))}
    return [
        Extension(
            name,
            [source.as_posix()],
            extra_compile_args=[*compile_flags, *(loop_flags if is_loops(name) else []), *module_flags.get(name, [])],
            extra_link_args=link_flags,
            define_macros=macros,
            include_dirs=[INCLUDE.as_posix()],
            depends=sorted(path.as_posix() for path in Path(PACKAGE).glob("**/*.h")),
        )
        for name, source in modules.items()
        if name not in left_out
    ]


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def require_compiler() -> None:
    """Exit with one line if there is no C compiler or no Python headers, rather than after minutes of Cython."""
    if WINDOWS:
        return
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    flags = [*shlex.split(os.environ.get("CPPFLAGS", "")), *shlex.split(os.environ.get("CFLAGS", ""))]
    include = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    command = [*shlex.split(compiler), *flags, *include, "-fsyntax-only", "-x", "c", "-"]
    problem = ""
    try:
        done = subprocess.run(command, input="#include <Python.h>\n", text=True, capture_output=True, check=False)
        if done.returncode != 0:
            problem = f"{compiler} cannot compile against the headers of Python {sysconfig.get_python_version()}"
    except OSError:
        problem = f"there is no C compiler: {compiler} was not found"
    if problem:
        raise SystemExit(f"{problem}; on Debian: apt-get install gcc libc6-dev python3-dev")


def processes() -> int:
    """Return the number of processes for Cython; 0 to run in this process."""
    # Cython warnings are made errors by a global variable, which only forked processes inherit.
    if multiprocessing.get_start_method() != "fork":
        return 0
    try:
        multiprocessing.Lock()  # a process pool needs locks, which need /dev/shm
    except (ImportError, OSError):
        return 0
    return cores()


class ModuleCache:
    """Compiled modules, by what they are made of and how.

    Parameters
    ----------
    folder : of the modules; it is made when the first one is kept.
    """

    versions = 3  # of a module that are kept

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.headers = sorted(Path(PACKAGE).glob("**/*.h"))

    @classmethod
    def find(cls) -> "ModuleCache | None":
        """Return the cache that the environment names, or that of a checkout; None for other sources."""
        named = os.environ.get("PARQUET_BLOOM_BUILD_CACHE")
        if named:
            return cls(Path(named))
        return cls(Path(".cache", "build")) if Path(".git").exists() else None

    @functools.cached_property
    def tools(self) -> str:
        """What modules are made by: versions of Python, Cython and the compiler, and the switches."""
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
        command = [*shlex.split(compiler), "--version"]
        is_there = shutil.which(command[0]) is not None  # modules that were kept need none
        version = subprocess.run(command, capture_output=True, check=False).stdout if is_there else b""
        flags = [os.environ.get(name, "") for name in ("CPPFLAGS", "CFLAGS", "LDSHARED", "LDFLAGS")]
        python = sys.version, sysconfig.get_platform(), sysconfig.get_config_var("CFLAGS")
        return repr((python, Cython.__version__, compiler, version, flags, directives, macros))

    def place_of(self, module: Extension) -> Path:
        """Return where a module is kept, or would be."""
        source = Path(module.sources[0]).with_suffix(".pyx")
        parts = sorted(create_dependency_tree().all_dependencies(str(source))) if source.exists() else []
        made = hashlib.sha256(repr((self.tools, module.extra_compile_args, module.extra_link_args)).encode())
        for part in [*map(Path, parts), *self.headers]:
            made.update(f"{part.name} {part.stat().st_size}\n".encode())
            made.update(part.read_bytes())
        return self.folder / f"{module.name}.{made.hexdigest()[:32]}"

    def keep(self, built: Path, place: Path) -> None:
        """Keep a module; those of the same name that were not used lately go."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix="new.", delete=False) as new:
            new.write(built.read_bytes())
        os.replace(new.name, place)
        name = place.name.rpartition(".")[0]
        others = sorted(self.folder.glob(f"{name}.{'?' * 32}"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[self.versions :]:
            old.unlink(missing_ok=True)


class BuildModules(build_ext):
    """Builds on all cores what the cache does not have."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or cores()

    def run(self) -> None:
        cache = ModuleCache.find()
        places = {} if cache is None else {module.name: cache.place_of(module) for module in self.extensions}
        wanted: list[Extension] = self.extensions
        known = [module for module in wanted if places.get(module.name, Path()).is_file()]
        for module in known:
            target = Path(self.get_ext_fullpath(module.name))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # a process may have it open
            shutil.copyfile(places[module.name], target)
            target.chmod(0o755)  # as a linker leaves it, since wheels have the modes of files
            places[module.name].touch()
        self.extensions = [module for module in wanted if module not in known]
        if self.extensions:
            self.force = True
            require_compiler()
            self.make_sources()
            super().run()
        for module in self.extensions:
            if cache is not None:
                cache.keep(Path(self.get_ext_fullpath(module.name)), places[module.name])
        self.extensions = wanted

    def make_sources(self) -> None:
        """Run Cython on the modules that are built.

        Not done when the modules are listed, as pip runs this file once for the metadata and once to build.
        """
        Options.warning_errors = True
        cythonized = cythonize(
            self.extensions,
            nthreads=processes(),
            compiler_directives=directives,
            shared_utility_qualified_name=SHARED,
            force=True,
        )
        sources = {module.name: module.sources for module in cythonized}
        for module in self.extensions:
            module.sources = sources[module.name]


def make_reproducible(archive: Path, epoch: int) -> None:
    """Write an archive anew with what its files hold and are named, and nothing of the folder that they came from."""
    part = archive.with_name(f"{archive.name}.part")
    with (
        tarfile.open(archive) as old,
        part.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.pax_headers = {}  # the time of the file, to the nanosecond
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    part.replace(archive)


class BuildSdist(sdist):
    """Builds the same archive of the same sources where SOURCE_DATE_EPOCH is set, as setuptools does with wheels."""

    def make_archive(self, base_name: str, format: str, *args: object, **options: object) -> str:
        made: str = super().make_archive(base_name, format, *args, **options)
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch and format == "gztar":
            make_reproducible(Path(made), int(epoch))
        return made


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildModules, "sdist": BuildSdist})
