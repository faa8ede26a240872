"""Plans handed to other engines: pyarrow datasets and polars.

`polars_predicate` is below `polars`, and `dataset` below `api`, the public functions that need `pyarrow.dataset`.
"""
