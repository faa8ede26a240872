"""Build the sdist and the wheels of a release into dist/, test them, and print them as a table; nothing is uploaded.

    release.py [--python 3.11,3.12] [--no-repeat]

Called by tools/release.sh, which installs what this needs. The sources are those of the last commit, not of the folder.

- The sdist, and from it a wheel for each Python: those on PATH, those of pyenv, and, as root and with debootstrap, that
  of the Debian release in DEBIAN, kept in .cache/release. auditwheel tags wheels with the oldest C library that
  they run with.
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
MIRROR = "http://deb.debian.org/debian"

# Run in a mount namespace of its own, so that no mount outlives it. The folder of the work has the same path inside.
ENTER = """
set -e
system=$1 work=$2 folder=$3; shift 3
mkdir -p "$system$work"
mount --rbind /dev "$system/dev"
mount -t proc proc "$system/proc"
mount --bind "$work" "$system$work"
touch "$system/etc/resolv.conf"
mount --bind /etc/resolv.conf "$system/etc/resolv.conf"
mount --bind /etc/ssl/certs "$system/etc/ssl/certs"
exec chroot "$system" env -C "$folder" PATH=/usr/bin:/bin "$@"
"""


@dataclass
class Interpreter:
    """A Python that wheels are built for, on this machine or in the folder of a Debian system."""

    version: str
    executable: str
    system: Path | None = None

    def run(
        self, *command: str | Path, folder: Path, output: Path | None = None, environment: Mapping[str, str] = {}
    ) -> int:
        """Run a command and return its exit code; without a file for its output, a failure ends the program with it."""
        words = list(map(str, command))
        if self.system is not None:
            words = ["unshare", "--mount", "bash", "-c", ENTER, "enter", *map(str, (self.system, KEPT, folder)), *words]
        return run(*words, folder=folder, output=output, environment=environment)


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


def make_system(release: str, *packages: str) -> Path | None:
    """Return the folder of a Debian release, or None where it cannot be made."""
    system = KEPT / release
    if (system / "usr" / "bin" / "python3").exists():
        return system
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        return None
    part = KEPT / f"{release}.part"
    shutil.rmtree(part, ignore_errors=True)
    script = Path("/usr/share/debootstrap/scripts", release)
    scripts = [] if script.exists() else [script.with_name("sid")]
    include = f"--include={','.join(packages)}"
    run("debootstrap", "--variant=minbase", include, release, part, MIRROR, *scripts)
    part.rename(system)
    return system


def find_interpreters(versions: list[str]) -> Iterator[Interpreter]:
    for version in versions:
        found = next((path for path in installed(version) if works(path, version)), None)
        release, of_debian = DEBIAN
        if found is not None:
            yield Interpreter(version, found)
        elif version == of_debian and (
            system := make_system(release, "python3-dev", "python3-venv", "gcc", "libc6-dev")
        ):
            yield Interpreter(version, f"/usr/bin/python{version}", system)
        else:
            print(f"no wheel for Python {version}: not found (root with debootstrap gets Debian's {of_debian})")


def make_environment(python: Interpreter, folder: Path, *requirements: str | Path) -> Path:
    """Make a clean environment and return its interpreter."""
    made = folder / "bin" / "python"
    # A copy, since the folder of a Debian system may lack its libraries.
    uv = KEPT / "uv"
    if not uv.exists():
        shutil.copy(str(shutil.which("uv")), uv)
    settings = {"UV_CACHE_DIR": str(KEPT / "uv-cache"), "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "hardlink"}
    python.run(
        uv, "venv", "--quiet", "--clear", "--python", python.executable, folder, folder=KEPT, environment=settings
    )
    constraints = KEPT / "work" / "constraints.txt"
    constraints.write_text(LOCK.read_text())
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

    for python in find_interpreters(given.python.split(",")):
        start = time.monotonic()
        folder = work / python.version
        builder = make_environment(python, folder / "builder", "build", *SETTINGS["build-system"]["requires"])
        wheel = keep(build_wheel(python, builder, sdist, folder / "wheel", dated))
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
