"""Runs of a command over many files: in parallel, with progress, and with atomic rewrites.

`rewrite` builds on `parallel`; `commit` exchanges the files of a table.
"""
