#!/usr/bin/env bash
# Runs a wheel of dist/ as a container would: in the files of a minimal Debian, with no compiler, no locale and no network, by a user
# who is not root. Needs root, mmdebstrap and what tools/release.sh has made.
#     bash tools/smoke.sh [WHEEL...]     all of dist/ without arguments
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

[ $# -gt 0 ] || set -- "$root"/dist/*.whl
[ -f "$1" ] || fail "there is no wheel in dist/: run tools/release.sh first"
[ "$(id -u)" -eq 0 ] || fail "tools/smoke.sh has to enter another root folder: run it as root"
command -v mmdebstrap >/dev/null || fail "mmdebstrap was not found: apt-get install mmdebstrap"
prepare_release_tools release

# shellcheck disable=SC2329 # `quietly` calls it
download() { # VERSION MACHINE FOLDER GLIBC WHEEL: the wheels of what a wheel asks for, up to those for a C library.
    local minor platforms=(--platform "manylinux2014_$2")
    for minor in $(seq 17 "$4"); do platforms+=(--platform "manylinux_2_${minor}_$2"); done
    # thrift has no wheels for aarch64, and does without its compiled part.
    if [ "$2" != x86_64 ]; then
        CC=false "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-binary thrift --wheel-dir "$3" \
            --constraint tools/requirements.lock thrift || return 1
    fi
    "$python" -m pip download --quiet --disable-pip-version-check --dest "$3" --find-links "$3" --only-binary=:all: \
        --python-version "$1" "${platforms[@]}" --constraint tools/requirements.lock "$5"
}

smoke() { # WHEEL
    local wheel machine version release system home interpreter=/usr/bin/python3 folders=()
    wheel=$(readlink -f "$1")
    machine=$(sed -n 's/.*_\(x86_64\|aarch64\)\.whl$/\1/p' <<<"$wheel")
    version=$(sed -n 's/.*-cp3\([0-9]*\)-cp3[0-9]*-.*/3.\1/p' <<<"$wheel")
    case $version in
    3.13) release=trixie ;;
    3.14) release=forky ;;
    *) release=bookworm ;;
    esac
    system=$root/.cache/release/minimal-$release-$machine
    if [ ! -e "$system/usr/bin/python3" ]; then
        [ "$machine" = x86_64 ] || fail "there is no $system: run tools/release.sh --aarch64 first"
        rm -rf "$system" "$system.part"
        quietly "files of Debian $release" mmdebstrap --variant=extract --include="$packages" "$release" "$system.part" \
            http://deb.debian.org/debian || return 1
        mv "$system.part" "$system"
    fi
    if [ -e "$system/usr/bin/cc" ]; then fail "$system has a compiler: delete that folder, then try again"; fi
    if [ ! -e "$system/usr/bin/python$version" ]; then # no release of Debian has 3.12
        interpreter=$(printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python | tail -n 1)
        [ -x "$interpreter" ] || fail "Python $version is neither in Debian $release nor in pyenv: pyenv install $version"
        folders=("${interpreter%/bin/python}")
        mkdir -p "$system${folders[0]}" && chmod a+x "$system/root" || return 1
    fi
    home=$system/smoke
    rm -rf "$home"
    mkdir -p "$home/wheels"
    quietly "wheels of the dependencies" download "$version" "$machine" "$home/wheels" 36 "$wheel" || return 1
    cat >"$home/lake.py" <<'PYTHON'
import os
import pyarrow as pa
import pyarrow.parquet as pq

os.mkdir("lake")
for part in range(4):
    numbers = range(part, 40_000, 4)
    pq.write_table(pa.table({"id": numbers, "name": [f"müller-{n}" for n in numbers]}), f"lake/{part}.parquet")
PYTHON
    cat >"$home/run.sh" <<'SCRIPT'
set -eu
cd /smoke
id
uname -m
! command -v cc
"$1" --version
"$1" -m venv env
env/bin/pip install --quiet --disable-pip-version-check --no-index --find-links wheels parquet-bloom
PATH=/smoke/env/bin:$PATH
parquet-bloom --version
parquet-bloom --help >help.txt
grep -q '^Usage: parquet-bloom' help.txt
python lake.py
parquet-bloom embed lake --column id --column name --in-place
parquet-bloom find lake --where "id = 4711" --format csv | tee found.csv
[ "$(grep -c müller-4711 found.csv)" = 1 ]
parquet-bloom find lake --where "name = 'müller-39999'" --format csv | grep -q 39999
parquet-bloom verify lake --data
python -c 'from parquet_bloom.core.dispatch import SIMD; print("kernels:", SIMD)'
echo "smoke test passed"
SCRIPT
    chown -R 1000:1000 "$home"
    echo "== ${wheel##*/}: Debian $release, $machine, $interpreter"
    # A network namespace without a network.
    unshare --net bash tools/enter.sh "$system" "${folders[@]}" -- setpriv --reuid 1000 --regid 1000 --clear-groups \
        env -i PATH=/usr/bin:/bin HOME=/smoke sh /smoke/run.sh "$interpreter"
}

packages=$(PYTHONPATH=tools "$python" -c 'import release; print(release.PACKAGES)')
status=0
for wheel in "$@"; do smoke "$wheel" || status=1; done
exit "$status"
