"""Build the sdist and the wheels of a release into dist/, test them, and print them as a table; nothing is uploaded.

    release.py [--python 3.11,3.12] [--aarch64] [--no-repeat]

Called by tools/release.sh, which installs what this needs. The sources are those of the last commit, not of the folder.

- The sdist, and from it a wheel for each Python: those on PATH, those of pyenv, and, as root and with mmdebstrap, that
  of the Debian release in DEBIAN, kept in .cache/release. auditwheel tags wheels with the oldest C library that
  run with.
- With --aarch64 also wheels for that processor, of the Pythons in AARCH64, by a cross-compiler with the headers of
  Debian's Python; their tests, fewer, run in Debian's files for it under qemu.
- Each wheel is installed in a clean environment, where the tests that [tool.cibuildwheel] names run against it.
- The sdist and the first wheel are built a second time, in another folder and without the cache of compiled modules,
  and have to be the same.
- The dependencies of the first wheel, in the versions that were tested, are listed as an SBOM (CycloneDX, JSON).
- `twine check --strict`.

The exit code is 1 if a test failed, or a second build differs from the first one.
"""

import argparse
import functools
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
KEPT = ROOT / ".cache" / "release"
LOCK = ROOT / "tools" / "requirements.lock"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# A release of Debian and the Python that it has, for where that Python is not installed.
DEBIAN = ("forky", "3.14")
# The Pythons that wheels for aarch64 are built for, and the releases of Debian that have them.
AARCH64 = {"3.11": "bookworm", "3.13": "trixie"}
COMPILER = "aarch64-linux-gnu-gcc"
# What a minimal system has, and Python.
PACKAGES = "base-files,bash,coreutils,dash,grep,sed,util-linux,libc-bin,libstdc++6,python3-venv"
MIRROR = "http://deb.debian.org/debian"


@dataclass
class Interpreter:
    """A Python that wheels are built for, on this machine or in the folder of a Debian system.

    One for another processor has a `builder` of the same version on this machine, which cross-compiles for it.
    """

    version: str
    executable: str
    system: Path | None = None
    builder: "Interpreter | None" = None

    def run(
        self, *command: str | Path, folder: Path, output: Path | None = None, environment: Mapping[str, str] = {}
    ) -> int:
        """Run a command and return its exit code; without a file for its output, a failure ends the program with it."""
        words = list(map(str, command))
        if self.system is not None:
            enter = ["bash", ROOT / "tools" / "enter.sh", self.system, KEPT, "--"]
            words = [*map(str, enter), "env", "-C", str(folder), "PATH=/usr/bin:/bin", *words]
        return run(*words, folder=folder, output=output, environment=environment)

    def cross_settings(self) -> dict[str, str]:
        """Return what makes the builder compile for this interpreter: Python's own names for it."""
        if self.builder is None:
            return {}
        data = f"_sysconfigdata__{COMPILER.removesuffix('-gcc')}"
        library = Path(f"{self.system}/usr/lib/python{self.version}")
        folder = KEPT / "work" / f"sysconfig-{self.version}"
        folder.mkdir(exist_ok=True)
        shutil.copy(library / f"{data}.py", folder)
        include = Path(f"{self.system}/usr/include")
        return {
            "_PYTHON_HOST_PLATFORM": "linux-aarch64",
            "_PYTHON_SYSCONFIGDATA_NAME": data,
            "PYTHONPATH": str(folder),
            "CC": COMPILER,
            "LDSHARED": f"{COMPILER} -shared",
            # The headers of Debian's Python come before the builder's own, those of its C library after the compiler's.
            "CFLAGS": f"-I{include}/python{self.version} -idirafter {include}",
        }


@dataclass
class Row:
    """A file of the release."""

    path: Path
    seconds: float
    tests: str = ""


def run(
    *command: str | Path, folder: Path = ROOT, output: Path | None = None, environment: Mapping[str, str] = {}
) -> int:
    settings = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=settings | dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if output is not None:
        output.write_text(done.stdout)
    elif done.returncode != 0:
        sys.exit(f"{done.stdout}\n{shlex.join(map(str, command))[:300]} failed with exit code {done.returncode}")
    return done.returncode


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def installed(version: str) -> Iterator[str]:
    """Yield the interpreters of a version that this machine may have."""
    yield from filter(None, [shutil.which(f"python{version}")])
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from map(str, sorted(versions.glob(f"{version}.*/bin/python"), reverse=True))


def works(executable: str, version: str) -> bool:
    """Return whether an interpreter is of a version, and has headers; pyenv's shims may be of none."""
    code = (
        "import sys, sysconfig, pathlib; pathlib.Path(sysconfig.get_path('include'), 'Python.h').stat(); "
        "print(*sys.version_info[:2], sep='.')"
    )
    done = subprocess.run([executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def make_system(name: str, release: str, architecture: str, packages: str) -> Path:
    """Return the folder of the files of some packages of a Debian release, which are not set up."""
    system = KEPT / name
    if not system.exists():
        part = KEPT / f"{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        options = ["--variant=extract", f"--arch={architecture}", f"--include={packages}"]
        run("mmdebstrap", *options, release, part, MIRROR)
        part.rename(system)
    return system


def find_interpreters(versions: list[str]) -> Iterator[Interpreter]:
    for version in versions:
        found = next((path for path in installed(version) if works(path, version)), None)
        release, of_debian = DEBIAN
        if found is not None:
            yield Interpreter(version, found)
        elif version == of_debian and os.geteuid() == 0 and shutil.which("mmdebstrap"):
            architecture = "arm64" if platform.machine() == "aarch64" else "amd64"
            system = make_system(release, release, architecture, f"{PACKAGES},python3-dev,gcc,libc6-dev")
            yield Interpreter(version, f"/usr/bin/python{version}", system)
        else:
            print(f"no wheel for Python {version}: not found (root with mmdebstrap gets Debian's {of_debian})")


def find_foreign_interpreters(versions: list[str]) -> Iterator[Interpreter]:
    """Yield Debian's interpreters for aarch64, whose programs qemu runs."""
    tools = [COMPILER, "mmdebstrap"]
    if not all(map(shutil.which, tools)) or not Path("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists():
        sys.exit(
            "wheels for aarch64 need a cross-compiler, and qemu to run their tests; on Debian: apt-get install "
            "gcc-aarch64-linux-gnu libc6-dev-arm64-cross mmdebstrap qemu-user-static binfmt-support"
        )
    for version in versions:
        found = next((path for path in installed(version) if works(path, version)), None)
        if found is None or version not in AARCH64:
            print(f"no wheel for aarch64 and Python {version}: it has to be on this machine, and one of {[*AARCH64]}")
            continue
        release = AARCH64[version]
        # tools/smoke.sh takes it, so it holds no compiler.
        system = make_system(f"minimal-{release}-aarch64", release, "arm64", f"{PACKAGES},libpython3-dev")
        yield Interpreter(version, f"/usr/bin/python{version}", system, Interpreter(version, found))


def make_environment(python: Interpreter, folder: Path, *requirements: str | Path) -> Path:
    """Make a clean environment and return its interpreter."""
    made = folder / "bin" / "python"
    constraints = KEPT / "work" / "constraints.txt"
    constraints.write_text(LOCK.read_text())
    if python.builder is not None:  # uv runs on this machine's processor alone
        python.run(python.executable, "-m", "venv", folder, folder=KEPT)
        install = [str(made), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--constraint", str(constraints)]
        python.run(*install, *requirements, folder=KEPT)
        return made
    # A copy, since the folder of a Debian system may lack its libraries.
    uv = KEPT / "uv"
    if not uv.exists():
        shutil.copy(str(shutil.which("uv")), uv)
    settings = {"UV_CACHE_DIR": str(KEPT / "uv-cache"), "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "hardlink"}
    python.run(
        uv, "venv", "--quiet", "--clear", "--python", python.executable, folder, folder=KEPT, environment=settings
    )
    install = [str(uv), "pip", "install", "--quiet", "--python", str(made), "--constraint", str(constraints)]
    python.run(*install, *requirements, folder=KEPT, environment=settings)
    return made


def build_sdist(folder: Path, environment: Mapping[str, str]) -> Path:
    """Build the sdist of the last commit, whose files are put into a folder."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    output = folder / "dist"
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(output), str(folder)]
    run(*command, environment={**environment, "PIP_CONSTRAINT": str(LOCK)})
    (made,) = output.glob("*.tar.gz")
    return made


def build_wheel(python: Interpreter, builder: Path, sdist: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Build a wheel of the sources in an sdist, and tag it with the oldest C library that it runs with."""
    folder.mkdir(parents=True)
    run("tar", "-xf", sdist, folder=folder)
    (sources,) = folder.iterdir()
    # The oldest library is known by the modules' symbols; which symbols they have is up to the machine that compiles.
    command = [
        str(builder),
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder / "built"),
        str(sources),
    ]
    python.run(*command, folder=folder, environment=environment)
    (built,) = (folder / "built").glob("*.whl")
    run("auditwheel", "repair", "--wheel-dir", folder / "tagged", built, environment=environment)
    (tagged,) = (folder / "tagged").glob("*.whl")
    return tagged


def test_wheel(python: Interpreter, wheel: Path, folder: Path) -> str:
    """Run the tests that [tool.cibuildwheel] names against a wheel, and return pytest's last line."""
    settings = SETTINGS["tool"]["cibuildwheel"]
    project = folder / "project"  # without the package, which would be taken for the one that is installed
    project.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", project)
    archive = subprocess.run(["git", "archive", "HEAD", "tests"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=project, input=archive, check=True)
    wheel = Path(shutil.copy(wheel, folder))  # a Debian system sees no more than this folder
    environment = make_environment(python, folder / "environment", wheel, *settings["test-requires"])
    empty = folder / "empty"
    empty.mkdir()
    words = shlex.split(settings["test-command"].format(project=project))
    if python.builder is not None:  # qemu is slow: what its processor alone computes, by both paths
        words = [word for word in words if not word.endswith(".py") or "/unit/core/" in word]
    output = folder / "tests.txt"
    status = python.run(
        environment,
        *words[1:],
        "-p",
        "no:cacheprovider",
        folder=empty,
        output=output,
        environment={"PYTHONSAFEPATH": "1"},
    )
    lines = output.read_text().strip().splitlines() or ["no output"]
    if status != 0:
        print(*lines[-30:], sep="\n")
    return lines[-1].strip("= ") if status == 0 else f"FAILED: {lines[-1].strip('= ')}"


def list_dependencies(python: Interpreter, wheel: Path, folder: Path) -> Path:
    """Write the SBOM of an environment that has a wheel, what it asks for and nothing else."""
    environment = make_environment(python, folder, wheel)
    bill = DIST / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    run("cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON", "-o", bill, environment)
    document = json.loads(bill.read_text())
    # The path that the wheel had here says nothing elsewhere.
    for component in document["components"]:
        references = component.get("externalReferences", [])
        component["externalReferences"] = [each for each in references if not each["url"].startswith("file:")]
    bill.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    return bill


def table(rows: list[Row]) -> str:
    lines = [("file", "size", "sha256", "tests", "seconds")]
    for row in rows:
        size = f"{row.path.stat().st_size:,}"
        lines.append((row.path.name, size, digest(row.path), row.tests, f"{row.seconds:.0f}"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def keep(path: Path) -> Path:
    return Path(shutil.copy(path, DIST))


def main() -> None:
    arguments = argparse.ArgumentParser(prog="tools/release.sh")
    arguments.add_argument("--python", default=",".join(PYTHONS), help="versions that wheels are built for")
    arguments.add_argument("--aarch64", action="store_true", help="build wheels for aarch64 too")
    arguments.add_argument("--no-repeat", action="store_true", help="build nothing a second time")
    given = arguments.parse_args()
    say = functools.partial(print, flush=True)
    log = ["git", "log", "-1", "--format=%ct"]
    commit = subprocess.run(log, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    dated = {"SOURCE_DATE_EPOCH": commit.stdout.strip()}
    work = KEPT / "work"
    for folder in (work, DIST):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    rows: list[Row] = []
    differ: list[str] = []

    start = time.monotonic()
    sdist = keep(build_sdist(work / "sdist", dated))
    rows.append(Row(sdist, time.monotonic() - start))
    say(f"{sdist.name}: {rows[-1].seconds:.0f} s")
    if not given.no_repeat and digest(build_sdist(work / "again" / "sdist" / "elsewhere", dated)) != digest(sdist):
        differ.append(sdist.name)

    versions = given.python.split(",")
    for python in [*find_interpreters(versions), *(find_foreign_interpreters(versions) if given.aarch64 else [])]:
        start = time.monotonic()
        folder = work / (python.version if python.builder is None else f"{python.version}-aarch64")
        native = python.builder or python
        builder = make_environment(native, folder / "builder", "build", *SETTINGS["build-system"]["requires"])
        wheel = keep(build_wheel(native, builder, sdist, folder / "wheel", dated | python.cross_settings()))
        row = Row(wheel, time.monotonic() - start)
        say(f"{wheel.name}: {row.seconds:.0f} s")
        row.tests = test_wheel(python, wheel, folder / "test")
        say(f"{wheel.name}: {row.tests}")
        rows.append(row)
        if len(rows) == 2:
            first = python, builder, wheel
            start = time.monotonic()
            bill = list_dependencies(python, wheel, folder / "bare")
            rows.append(Row(bill, time.monotonic() - start))

    if not given.no_repeat and len(rows) > 1:
        python, builder, wheel = first
        again = build_wheel(
            python, builder, sdist, work / "again" / "wheel", {**dated, "PARQUET_BLOOM_BUILD_CACHE": ""}
        )
        if digest(again) != digest(wheel):
            differ.append(wheel.name)

    packages = [row.path for row in rows if row.path.suffix != ".json"]
    run(sys.executable, "-m", "twine", "check", "--strict", *packages)
    print(table(rows))
    for name in differ:
        print(f"{name} differs from its second build, which is in {work / 'again'}: compare them with diffoscope")
    if not given.no_repeat and not differ:
        print("the second builds of the sdist and of the first wheel are the same")
    sys.exit(1 if differ or any(row.tests.startswith("FAILED") for row in rows) else 0)


if __name__ == "__main__":
    main()
