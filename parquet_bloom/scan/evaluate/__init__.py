"""Evaluation of a predicate by evidence: partition values, indexes, statistics, filters and zones.

`parquet` comes first, then `orc`, `local_batch` and `object_batch`, and `zone_rows` and then `zones`; `planner` calls
these and `lake_index`, in the order of the evidence.
"""
