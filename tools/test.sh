#!/usr/bin/env bash
# Installs what the tests need, builds the package, and runs the tests:
#     bash tools/test.sh          what a change breaks most likely (the default tier)
#     bash tools/test.sh --ci     that, all engines, Spark, and this commit's share of the long campaigns
#     bash tools/test.sh --all    everything, for an hour or two, in pieces: stopped, it continues with the next call
#         --again begins with the first piece; --keep keeps what passed at another commit
# Other arguments go to pytest: bash tools/test.sh tests/unit/file -k embed
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare test java c++
arguments=()
pieces=()
for argument in "$@"; do
    case $argument in
    --ci)
        shares=$("$python" -c 'import sys; sys.path.insert(0, "tests"); from support import tiers; print(tiers.SHARES)')
        commit=$(git rev-parse --short=8 HEAD 2>/dev/null) || commit=$(date +%Y%m%d)
        share=$((16#$commit % shares))/$shares
        echo "long campaigns: share $share, chosen by $commit"
        arguments+=(--tier ci --share "$share")
        ;;
    --all) arguments+=(--tier all) ;;
    --again | --keep) pieces+=("$argument") ;;
    *) arguments+=("$argument") ;;
    esac
done
# As many tests at a time as there are cores, up to four. `-n 0` runs all in one process.
cores=$(nproc)
workers=(-n $((cores < 2 ? 0 : cores > 4 ? 4 : cores)))
if [ "${arguments[*]}" = "--tier all" ]; then
    exec "$python" tests/support/pieces.py "${pieces[@]}" -- "${workers[@]}" </dev/null
elif [ ${#pieces[@]} -gt 0 ]; then
    fail "${pieces[*]} goes with --all alone"
fi
exec "$python" -m pytest "${workers[@]}" "${arguments[@]}" </dev/null
