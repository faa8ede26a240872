#!/usr/bin/env bash
# Builds the package under AddressSanitizer and UndefinedBehaviorSanitizer and fuzzes every target, or those named, for a time.
# bash tools/fuzz.sh [--seconds 60 | --inputs N] [--blind] [TARGET...]
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

length=(--seconds 60)
how=()
targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --seconds | --inputs) length=("$1" "${2:?how many?}"); shift ;;
        --blind) how=(--blind) ;;
        -*) fail "bash tools/fuzz.sh [--seconds S | --inputs N] [--blind] [TARGET...]" ;;
        *) targets+=("$1") ;;
    esac
    shift
done

prepare fuzz clang
sanitized=$root/build/sanitized
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(find tests/fuzz/targets -name '*.py' ! -name '__init__.py' -exec basename {} .py \; | sort)
fi

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
    env LD_PRELOAD="$preload" PYTHONPATH="$sanitized" PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1 \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:handle_segv=1 \
        "$python" tests/fuzz/campaign.py "$target" "${length[@]}" ${how[@]+"${how[@]}"} || status=1
done
exit "$status"
