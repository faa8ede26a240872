"""Hand a plan to other engines: pyarrow datasets and polars."""
