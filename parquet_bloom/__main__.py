"""`python -m parquet_bloom`, and the command `parquet-bloom`."""

import sys


def main() -> int:
    """Run the command line of this process, and return the exit code; an interrupt during its imports, too."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
