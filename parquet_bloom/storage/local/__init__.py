"""Local files: reading, reading many files in one call, and atomic rewriting.

`libc`, `scatter` and `mapped` come first, then `source`, `temporary`, `rename` and `lease`, then `copy`, `batch` and
`hadoop_crc`, and `rewrite` last; `change_times` needs `libc` alone.
"""
