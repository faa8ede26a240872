#!/usr/bin/env bash
# Checks that a tag is the version in parquet_bloom/__init__.py, and that CHANGELOG.md has a heading for it:
#     bash tools/release_check.sh v1.2.3
set -euo pipefail
cd "$(dirname "$0")/.."
tag=${1:?the tag, such as v1.2.3}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' parquet_bloom/__init__.py)
if [ "$tag" != "v$version" ]; then
    echo "the tag is $tag, but the version in parquet_bloom/__init__.py is $version" >&2
    exit 1
fi
if ! grep -qF "## [$version]" CHANGELOG.md; then
    echo "CHANGELOG.md has no heading ## [$version]" >&2
    exit 1
fi
