"""The Python data source `parquet_bloom`: options, schema, plan and readers."""
