#!/usr/bin/env bash
# Prints which share of the Python modules' branches the default tier takes, and fails where it has fallen below the floor,
# `fail_under` in pyproject.toml. Arguments go to pytest.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare test java c++
cores=$(nproc)
# From 3.14 on Python counts branches itself, which costs little.
if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 14))'; then export COVERAGE_CORE=sysmon; fi
exec "$python" -m pytest -n $((cores > 4 ? 4 : cores)) --cov --cov-report=term-missing "$@" </dev/null
