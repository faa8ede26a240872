"""From files and a predicate to a plan, by levels of evidence: `planner` has the list of them, and a module each.

Statistics and filters are one call of `predicate.pruning`: `footers` makes it for batches, by `local_batch` and
`object_batch`, and for single ones, by `parquet` and `orc`. `zone` builds on `zone_rows`.
"""
