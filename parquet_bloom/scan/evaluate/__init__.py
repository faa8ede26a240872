"""Evaluation of a predicate by evidence: partition values, indexes, statistics, filters and zones.

`planner` chains the evaluators, in that order: `partitions`, `lake_index`, `footers` and `zones` implement the
interface in `evaluator`. Statistics and filters are one call of `predicate.pruning`: `footers` makes it for batches of
files, by `local_batch` and `object_batch`, and for single ones, by `parquet` and `orc`. `zones` builds on `zone_rows`.
`page_index` narrows a plan further, for row ranges.
"""
