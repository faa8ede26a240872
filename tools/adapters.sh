#!/usr/bin/env bash
# Runs tests/adapters, and the examples for orchestrators, with the real libraries: Ray Data, Daft, dbt-duckdb, Dagster, Airflow,
# awswrangler and Hugging Face's datasets, in an environment of their own, .cache/adapters (pyproject.toml says why).
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
if [ $# -eq 0 ]; then set -- tests/adapters; fi
"$python" -m pytest -q "$@"
