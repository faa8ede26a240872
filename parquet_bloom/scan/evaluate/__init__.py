"""Evaluate a predicate by evidence: partition values, indexes, statistics, filters and zones.

`planner` calls the others, in that order; statistics and filters are one call of `predicate.pruning`. `local_batch` and
`object_batch` build on `parquet`, and `zones` on `zone_rows`.
"""
