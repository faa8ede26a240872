#!/usr/bin/env bash
# Builds the package under AddressSanitizer and UndefinedBehaviorSanitizer and fuzzes every target, or those named, for a time.
# bash tools/fuzz.sh [--seconds 60 | --inputs N] [TARGET...]
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

length=-max_total_time=60
targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) length=-max_total_time=${2:?how many?}; shift ;;
        --inputs) length=-atheris_runs=${2:?how many?}; shift ;;
        -*) fail "bash tools/fuzz.sh [--seconds S | --inputs N] [TARGET...]" ;;
        *) targets+=("$1") ;;
    esac
    shift
done

prepare fuzz clang
sanitized=$root/build/sanitized
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <("$python" tests/fuzz/campaign.py)

# A copy of the sources, so that the modules in the project's folder stay what they are.
# shellcheck disable=SC2329 # `quietly` calls it
build_sanitized() {
    mkdir -p "$sanitized" &&
        tar -c --exclude='*.so' --exclude='*.c' --exclude=__pycache__ setup.py pyproject.toml README.md LICENSE parquet_bloom |
        tar -x -C "$sanitized" &&
        (cd "$sanitized" && CC=clang PARQUET_BLOOM_SANITIZE=address,undefined,fuzzer "$python" setup.py build_ext --inplace)
}
quietly "build parquet_bloom under sanitizers" build_sanitized || fail "parquet_bloom could not be built"

preload=$("$python" -c 'import atheris; print(atheris.path())')/asan_with_fuzzer.so
status=0
for target in "${targets[@]}"; do
    # What libFuzzer collects is kept from one campaign to the next.
    folder=$root/build/fuzz/$target
    mkdir -p "$folder"
    echo "$target"
    env LD_PRELOAD="$preload" PYTHONPATH="$sanitized" PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1 \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:handle_segv=1 \
        "$python" tests/fuzz/campaign.py "$target" "$length" -timeout=25 -rss_limit_mb=3000 -malloc_limit_mb=1024 \
        -artifact_prefix="$folder.finding-" "$folder" || status=1
done
exit "$status"
