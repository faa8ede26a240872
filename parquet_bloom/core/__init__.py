"""Compiled kernels over numbers and bytes; they know no file, no Arrow array and no Parquet type."""

import sys

if sys.byteorder != "little":  # bitsets and plain encodings are little-endian, and the kernels read them as they are
    raise ImportError("parquet_bloom needs a little-endian processor")
