#!/usr/bin/env bash
# Builds the package for aarch64 by a cross-compiler and runs tests of it under qemu, with each path of the kernels. What that
# takes, Debian's Python for aarch64 and wheels, is kept in .cache/qemu. Nothing here says how fast anything is: qemu translates.
# bash tools/qemu.sh [PYTEST ARGUMENT...]; tests/unit/core without arguments
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare test qemu
folder=$root/.cache/qemu
system=$folder/system # files of Debian's packages for aarch64
emulated=$folder/venv/bin/python
project=$folder/project # a copy, so that the modules in the project's folder stay what they are
multiarch=aarch64-linux-gnu
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
version=$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
mkdir -p "$folder" || fail "cannot make $folder"

# apt with lists, packages and settings of its own, which takes nothing on this machine to be installed.
# shellcheck disable=SC2329 # `install_system` calls it
apt_aarch64() { # COMMAND...
    local apt=$folder/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/sources" || return 1
    : >"$apt/status"
    cp /etc/apt/sources.list.d/debian.sources "$apt/sources/" 2>/dev/null || cp /etc/apt/sources.list "$apt/sources/debian.list" ||
        return 1
    apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false \
        -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/sources" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=5 "$@"
}

# shellcheck disable=SC2329 # `quietly` calls it
install_system() {
    local package
    rm -rf "$system"
    apt_aarch64 update && apt_aarch64 --download-only install python3 libpython3-dev libstdc++6 || return 1
    for package in "$folder"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$system.part" || return 1; done
    mv "$system.part" "$system"
}

# Of an environment only what names its home and its packages; its interpreter is a script that starts qemu, also for the
# processes that tests start, as Python takes its own name from there.
# shellcheck disable=SC2329 # `quietly` calls it
install_environment() {
    local site=$folder/venv/lib/python$version/site-packages glibc requirements platforms=()
    rm -rf "$folder/venv"
    mkdir -p "$site" "$(dirname "$emulated")" || return 1
    printf 'home = %s\ninclude-system-site-packages = false\n' "$system/usr/bin" >"$folder/venv/pyvenv.cfg"
    # shellcheck disable=SC2016 # the script's own
    printf '#!/bin/sh\nexec "%s" -L "%s" -0 "$0" "%s" "$@"\n' "$qemu" "$system" "$system/usr/bin/python$version" >"$emulated"
    chmod +x "$emulated" || return 1
    # Wheels name the oldest C library that they run with, and pip knows this machine's, not the other one's.
    for glibc in $(seq 17 "$("$emulated" -c 'import platform; print(platform.libc_ver()[1].split(".")[1])')"); do
        platforms+=(--platform "manylinux_2_${glibc}_aarch64")
    done
    # thrift has no wheels for it and does without its compiled part.
    mapfile -t requirements < <("$python" tools/requirements.py | grep -v '^thrift'
        "$python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["tool"]["cibuildwheel"]["test-requires"], sep="\n")')
    pip_install --target "$site" --platform manylinux2014_aarch64 "${platforms[@]}" --python-version "$version" \
        --only-binary=:all: "${requirements[@]}" &&
        tar -c -C "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" --exclude='*.so' thrift | tar -x -C "$site"
}

# shellcheck disable=SC2329 # `quietly` calls it
build_project() {
    mkdir -p "$project" "$folder/sysconfig" &&
        cp "$system/usr/lib/python$version/_sysconfigdata__$multiarch.py" "$folder/sysconfig/" &&
        find "$project" -type f ! -path '*/build/*' ! -name '*.so' ! -name '*.c' -delete &&
        tar -c --exclude='*.so' --exclude='*.c' --exclude=__pycache__ setup.py pyproject.toml README.md LICENSE parquet_bloom |
        tar -x -C "$project" &&
        tar -c --exclude=__pycache__ tests | tar -x -C "$project" &&
        # Python's own names for what another interpreter was built for; its headers come before this one's.
        (cd "$project" && _PYTHON_HOST_PLATFORM=linux-aarch64 _PYTHON_SYSCONFIGDATA_NAME="_sysconfigdata__$multiarch" \
            PYTHONPATH=$folder/sysconfig CC=$multiarch-gcc LDSHARED="$multiarch-gcc -shared" \
            CFLAGS="-I$system/usr/include/python$version -idirafter $system/usr/include" "$python" setup.py -q build_ext --inplace)
}

# once STAMP WHAT COMMAND: unless it was done with the same stamp.
once() {
    local stamp=$folder/$3.done
    [ "$(cat "$stamp" 2>/dev/null)" != "$1" ] || return 0
    rm -f "$stamp"
    quietly "$2" "$3" || fail "$2: failed"
    printf '%s\n' "$1" >"$stamp"
}

once "$version" "Debian's Python for aarch64" install_system
[ -x "$system/usr/bin/python$version" ] ||
    fail "Debian's Python for aarch64 is not $version, as this one is: set PYTHON to one of $(cd "$system/usr/bin" && echo python3.*)"
once "$version $qemu $root $(sha256sum pyproject.toml)" "wheels for aarch64" install_environment
quietly "build parquet_bloom for aarch64" build_project || fail "parquet_bloom could not be built"

cd "$project" || exit 1
export PYTHONPATH=$project
status=0
chosen=$("$emulated" -c 'from parquet_bloom.core.dispatch import SIMD; print(SIMD)')
[ "$chosen" = neon ] || { echo "expected neon, got $chosen" >&2 && status=1; }
# tests/unit/core/test_kernels.py takes all paths in turn, so it runs once.
kernels=tests/unit/core/test_kernels.py
others=("$@")
# Nor does qemu hold a program to a limit on its memory.
limit=tests/unit/core/test_memory.py::test_memory_is_given_back_and_refused_in_time
# The default tier compares the primitives with plain C; the compiler in here is one for the machine around it.
primitives=tests/unit/core/test_platforms.py::test_each_primitive_equals_plain_c
[ $# -gt 0 ] || { set -- tests/unit/core "--deselect=$limit" "--deselect=$primitives" && others=("$@" "--ignore=$kernels"); }
for path in neon base; do
    echo "PARQUET_BLOOM_SIMD=$path"
    PARQUET_BLOOM_SIMD=$path "$emulated" -m pytest -q -p no:cacheprovider -m "not ci and not long" "$@" </dev/null || status=1
    set -- "${others[@]}"
done
exit "$status"
