"""Zone indexes in files: Arrow, Lance and Parquet."""
