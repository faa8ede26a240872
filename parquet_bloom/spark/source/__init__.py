"""The Python data source `parquet_bloom`."""
