"""Plans handed to other engines: pyarrow datasets and polars."""
