#!/usr/bin/env bash
# Checks style, types, spelling, stubs, shell scripts, workflows and the Dockerfile; with --fix, mends first what can be mended.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare lint
bin=$venv/bin
status=0
check() { # WHAT COMMAND...
    quietly "$@" || status=1
}

if [ "${1:-}" = --fix ]; then
    "$bin/ruff" check --quiet --fix-only .
    "$bin/ruff" format --quiet .
fi
# stubtest imports what it checks, and the kernels of an instruction set end a process whose processor lacks it; those of
# another processor are not even built.
lacking=$("$python" -c 'from pathlib import Path
from parquet_bloom.core.cpu import instruction_sets
names = {path.stem for path in Path("parquet_bloom/core/kernels").glob("*.pyx")} - {"base", *instruction_sets()}
print(*(f"-e kernels.{name}$" for name in names))')
# shellcheck disable=SC2086 # a word is an argument
mapfile -t compiled < <(find parquet_bloom -name '*.pyx' | sort | sed 's/\.pyx$//; s|/|.|g' | grep -v -e '^$' $lacking)
# .pre-commit-config.yaml runs these four as well, from the same environment.
check "ruff check" "$bin/ruff" check --no-cache .
check "ruff format" "$bin/ruff" format --no-cache --check --diff .
check "mypy" "$bin/mypy"
check "typos" "$bin/typos"
check "stubtest" "$python" -m mypy.stubtest --mypy-config-file pyproject.toml --concise --ignore-disjoint-bases \
    --allowlist tools/stubtest_allowlist.txt --ignore-unused-allowlist "${compiled[@]}"
check "shellcheck" "$bin/shellcheck" --external-sources .ci/run tools/*.sh
check "zizmor" "$bin/zizmor" --offline --quiet --min-severity medium .github
check "workflow schema" "$bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
check "hadolint" "$bin/hadolint" Dockerfile
if command -v actionlint >/dev/null; then # its package on PyPI downloads it from elsewhere
    check "actionlint" actionlint
fi
exit "$status"
