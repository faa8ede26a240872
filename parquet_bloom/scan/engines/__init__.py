"""Plans handed to other engines: pyarrow datasets and polars.

`polars_predicate` is below `polars`, and `dataset` is independent.
"""
