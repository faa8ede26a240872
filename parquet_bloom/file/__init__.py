"""One Parquet file: its filters read, embedded and verified."""
