"""Scans of files for a predicate: plan which files and row groups can match, and read the rows that match.

`model` is the plan as data, `evaluate` and `read` build on it, then `engines` and `html`, then `report`, and `api` and
`engines/api` have the public functions; `advise` builds on `model` alone.
"""
