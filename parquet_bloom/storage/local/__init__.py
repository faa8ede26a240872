"""Local files: reading, reading many files in one call, and atomic rewriting.

`libc`, `scatter` and `mapped` come first, then `source`, `batch`, `temporary` and `copy`, then `rewrite`.
"""
