#!/usr/bin/env bash
# Runs tests/adapters, and the examples for orchestrators, with the real libraries: Ray Data, Daft, dbt-duckdb, Dagster, Airflow,
# awswrangler and Hugging Face's datasets, in an environment of their own, .cache/adapters (pyproject.toml says why), and
# with pypaimon in another one, .cache/paimon. Arguments that name its tests are for that one, all others for the first.
#     bash tools/adapters.sh [PYTEST ARGUMENT...]
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

venv=$root/.cache/adapters
python=$venv/bin/python
locked=tools/adapters.lock
prepare adapters c++

# Ray's helpers have seconds to start, too few where each of them has to compile what it imports.
quietly "compile Ray" "$python" -m compileall -q -j 0 "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ray" ||
    fail "Ray could not be compiled"
# Where one is not installed its tests would be skipped.
"$python" -c 'import airflow, awswrangler, daft, dagster, datasets, dbt.adapters.duckdb, ray.data' >/dev/null ||
    fail "a library is missing: delete $venv, then try again"
export RAY_USAGE_STATS_ENABLED=0 DBT_SEND_ANONYMOUS_USAGE_STATS=false HF_HUB_OFFLINE=1

# pypaimon asks for a pyarrow below 20, older than what this package needs, and works with later ones: pip would refuse the two together,
# so that tools/paimon.lock has all that is installed, pyarrow as this package needs it. What is compiled is taken from the checkout.
paimon() { # PYTEST ARGUMENT...
    local wanted
    venv=$root/.cache/paimon
    python=$venv/bin/python
    wanted="$("$base" -c 'import sys; print(sys.version)' | head -n 1) $(sha256sum <tools/paimon.lock)"
    if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$venv"
        shown=5 quietly "python -m venv .cache/paimon" "$base" -m venv "$venv" || fail "cannot make $venv"
        shown=5 quietly "pip install into .cache/paimon" pip_install --no-deps --requirement tools/paimon.lock ||
            fail "pip could not install the packages"
        echo "$wanted" >"$venv/complete"
    fi
    "$python" -c 'import pypaimon' || fail "pypaimon is missing: delete $venv, then try again"
    PYTHONPATH=$root "$python" -m pytest -q "$@"
}

if [[ "$*" = *paimon* ]]; then
    paimon "$@"
elif [ $# -gt 0 ]; then
    "$python" -m pytest -q "$@"
else
    status=0
    "$python" -m pytest -q tests/adapters --ignore=tests/adapters/test_paimon_lake.py || status=$?
    paimon tests/adapters/test_paimon_lake.py || status=$?
    exit "$status"
fi
