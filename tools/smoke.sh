#!/usr/bin/env bash
# Runs a wheel of dist/ as a container would: in the files of a minimal Debian with Python 3.11, with no compiler, no locale and no
# network, by a user who is not root. Needs root, debootstrap and what tools/release.sh has made.
#     bash tools/smoke.sh [WHEEL]
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

wheel=$(readlink -f "${1:-$(echo "$root"/dist/*-cp311-*_x86_64.whl)}")
[ -f "$wheel" ] || fail "there is no wheel for Python 3.11 in dist/: run tools/release.sh first"
[ "$(id -u)" -eq 0 ] || fail "tools/smoke.sh has to enter another root folder: run it as root"
command -v debootstrap >/dev/null || fail "debootstrap was not found: apt-get install debootstrap"
prepare_release_tools release

system=$root/.cache/release/bookworm
if [ ! -x "$system/usr/bin/python3" ]; then
    rm -rf "$system" "$system.part"
    quietly "debootstrap bookworm" debootstrap --variant=minbase --include=python3,python3-venv bookworm "$system.part" \
        http://deb.debian.org/debian || exit 1
    mv "$system.part" "$system"
fi
if [ -e "$system/usr/bin/cc" ]; then fail "$system has a compiler: delete that folder, then try again"; fi
home=$system/smoke
# All C libraries that wheels may name, up to the one of that Debian.
platforms=(--platform manylinux2014_x86_64)
for glibc in $(seq 17 36); do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
rm -rf "$home"
mkdir -p "$home/wheels"
quietly "wheels of the dependencies" "$python" -m pip download --quiet --disable-pip-version-check --dest "$home/wheels" --only-binary=:all: --python-version 3.11 \
    "${platforms[@]}" --constraint tools/requirements.lock "$wheel" || exit 1

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
! command -v cc
python3 -m venv env
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
# A mount namespace of its own, so that no mount outlives it, and a network namespace without a network.
# shellcheck disable=SC2016 # the inner shell's
unshare --mount --net bash -c 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
    exec chroot --userspec=1000:1000 "$1" env -i PATH=/usr/bin:/bin HOME=/smoke sh /smoke/run.sh' enter "$system"
