"""Show the Bloom filters of Parquet and ORC files, a row each: tools/inspect_bloom.py PATH... (see --help)."""

import sys
from pathlib import Path

try:
    from parquet_bloom.cli import main
except ImportError:  # not installed: use the package built in place in this checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from parquet_bloom.cli import main

if __name__ == "__main__":
    sys.exit(main(["show", *sys.argv[1:]]))
