#!/usr/bin/env bash
# Tests the wheels of dist/ with the oldest and the newest versions of what the package stands on, and writes what was found into
# docs/reference/compatibility.md: the oldest with the oldest Python, the newest with the newest one that is here.
#     bash tools/matrix.sh [--all]     --all: both with every Python
#     bash tools/matrix.sh NOX ARGUMENT...
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare_release_tools matrix
for bin in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do PATH=$PATH:$bin; done
export PATH UV_PYTHON_DOWNLOADS=never UV_CACHE_DIR=$root/.cache/release/uv-cache
unset PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
nox=("$python" -m nox --noxfile noxfile.py --envdir .cache/matrix/environments)
case ${1:-} in
--all) exec "${nox[@]}" ;;
"") ;;
*) exec "${nox[@]}" "$@" ;;
esac
mapfile -t found < <(printf '%s\n' dist/*.whl | sed -n 's/.*-cp3\([0-9]*\)-.*/\1/p' | sort -n)
[ ${#found[@]} -gt 0 ] || fail "dist/ has no wheels: run tools/release.sh first"
status=0
"${nox[@]}" -s "versions-3.${found[0]}" -k oldest || status=1
"${nox[@]}" -s "versions-3.${found[-1]}" -k newest || status=1
"${nox[@]}" -s table || status=1
exit "$status"
