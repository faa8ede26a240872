"""Evaluate a predicate against evidence: partitions, indexes, zones, statistics and filters.

`planner` calls the others; `local_batch` and `object_batch` build on `parquet`, and `zones` on `zone_rows`.
"""
