"""Find what this machine lacks to build and run the project; called by tools/setup.sh.

    machine.py lacks [java] [jdk] [c++] [clang] [qemu]
                                          print missing parts, one per line: the Debian package, then its purpose
    machine.py java-home [jdk]            print the home of a Java that Spark can use, if any; jdk: one with a compiler

Uses only the standard library, and no syntax newer than Python 3.6, so that it runs on any Python 3.
"""

import glob
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import sysconfig
import tempfile

MINIMUM_PYTHON = (3, 11)
MINIMUM_JAVA = 17  # required by Spark 4


def compiles(compiler, suffix, source):
    """Return whether a compiler can compile a source text into a shared library."""
    include = ["-I" + sysconfig.get_path(name) for name in ("include", "platinclude")]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "probe" + suffix)
        with open(path, "w") as file:
            file.write(source)
        command = [*compiler, "-shared", "-fPIC", *include, path, "-o", os.path.join(folder, "probe.so")]
        try:
            return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            return False


def compiles_c(source):
    """Return whether the compiler that Python's build tools use compiles a C source."""
    return compiles(shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"), ".c", source)


def has_headers(has_compiler):
    if has_compiler:
        return compiles_c("#include <Python.h>\n")
    return os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))


def makes_environments():
    # Debian packages ensurepip separately from python3, and venv requires it.
    command = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def has_certificates():
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and os.listdir(paths.capath))


def java_version(home):
    """Return the major version of the Java in a folder, or 0."""
    try:
        done = subprocess.run(
            [os.path.join(home, "bin", "java"), "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError:
        return 0
    match = re.search(rb'version "(\d+)', done.stdout)
    return int(match.group(1)) if match and done.returncode == 0 else 0


def java_home(with_compiler=False):
    """Return the home of JAVA_HOME's Java, else of the PATH's, else of the oldest suitable installed one."""

    def is_suitable(home):
        if with_compiler and not os.path.exists(os.path.join(home, "bin", "javac")):
            return False
        return java_version(home) >= MINIMUM_JAVA

    homes = [os.environ.get("JAVA_HOME")]
    on_path = shutil.which("java")
    if on_path:
        homes.append(os.path.dirname(os.path.dirname(os.path.realpath(on_path))))
    for home in filter(None, homes):
        if is_suitable(home):
            return home
    installed = {java_version(home): home for home in sorted(glob.glob("/usr/lib/jvm/*")) if is_suitable(home)}
    return installed[min(installed)] if installed else ""


def lacks(wants):
    has_compiler = compiles_c("#include <stdlib.h>\n")
    if not has_compiler:
        yield "gcc", "a C compiler"
        yield "libc6-dev", "the C library's headers"
    if not has_headers(has_compiler):
        yield "python3-dev", "Python's C headers"
    if not makes_environments():
        yield "python3-venv", "Python's venv with ensurepip"
    if not has_certificates():
        yield "ca-certificates", "the certificates by which pip verifies downloads"
    if "java" in wants and not java_home():
        yield "openjdk-17-jre-headless", "Java {} or newer for Spark".format(MINIMUM_JAVA)
    if "jdk" in wants and not java_home(with_compiler=True):
        yield "openjdk-17-jdk-headless", "a Java compiler for the benchmarks"
    if "c++" in wants and not compiles(["g++", "-std=c++20"], ".cpp", "#include <string>\n"):
        yield "g++", "a C++ compiler for the tests"
    if "clang" in wants and not compiles(["clang"], ".c", "#include <stdlib.h>\n"):
        yield "clang", "a C compiler with libFuzzer"
    if "clang" in wants and not compiles(["clang", "-fsanitize=address,undefined"], ".c", "#include <stdlib.h>\n"):
        yield "libclang-rt-dev", "that compiler's sanitizers"
    if "qemu" in wants and not compiles(["aarch64-linux-gnu-gcc"], ".c", "#include <stdlib.h>\n"):
        yield "gcc-aarch64-linux-gnu", "a C compiler for aarch64"
        yield "libc6-dev-arm64-cross", "the C library's headers for aarch64"
    if "qemu" in wants and not (shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")):
        yield "qemu-user-static", "an emulator of aarch64"


def main(arguments):
    if sys.version_info < MINIMUM_PYTHON:
        required = ".".join(map(str, MINIMUM_PYTHON))
        actual = ".".join(map(str, sys.version_info[:3]))
        return "parquet_bloom needs Python {} or newer; {} is {} (set PYTHON to a newer one)".format(
            required, sys.executable, actual
        )
    if arguments[:1] == ["java-home"]:
        print(java_home("jdk" in arguments))
    elif arguments[:1] == ["lacks"]:
        for package, purpose in lacks(arguments[1:]):
            print(package, purpose)
    else:
        return __doc__
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
