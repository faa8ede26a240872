#!/usr/bin/env bash
# Installs what the tests need, builds the package, and runs the tests:
#     bash tools/test.sh          what a change breaks most likely (the default tier)
#     bash tools/test.sh --ci     that, and this commit's shares of CI's tests (all engines, Spark) and of the long campaigns
#     bash tools/test.sh --long   everything, for an hour or two; --splits 60 --group 7 runs one part of 60
# Other arguments go to pytest: bash tools/test.sh tests/unit/file -k embed
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

CI_SHARES=12   # of CI's tests, and
LONG_SHARES=80 # of the long campaigns: CI runs one of each, so that it takes 20 minutes on two cores

prepare test java c++
arguments=()
tier=
for argument in "$@"; do
    case $argument in
    --ci | --long) tier=$argument ;;
    *) arguments+=("$argument") ;;
    esac
done
# As many tests at a time as there are cores, up to four. `-n 0` runs all in one process.
cores=$(nproc)
workers=(-n $((cores < 2 ? 0 : cores > 4 ? 4 : cores)))
run() {
    "$python" -m pytest "${workers[@]}" "$@" ${arguments[@]+"${arguments[@]}"} </dev/null
}

run_share() { # MARK SHARES EXPRESSION: runs the share of the tests that this commit chooses
    local share=$((16#$commit % $2 + 1))
    echo "tests marked $1: share $share of $2, chosen by $commit"
    run -m "$3" --hypothesis-profile ci --splits "$2" --group "$share" --splitting-algorithm least_duration
}

case $tier in
--ci)
    if [ ${#arguments[@]} -gt 0 ]; then
        run -m "not long" --hypothesis-profile ci
        exit
    fi
    status=0
    run -m "not ci and not long" || status=$?
    commit=$(git rev-parse --short=8 HEAD 2>/dev/null) || commit=$(date +%Y%m%d)
    run_share ci $CI_SHARES "ci and not long" || status=$?
    run_share long $LONG_SHARES long || status=$?
    exit "$status"
    ;;
--long) run -m "long or not long" --hypothesis-profile long --splitting-algorithm least_duration ;;
*) run ;;
esac
