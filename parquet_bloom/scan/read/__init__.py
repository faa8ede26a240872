"""Read the rows that a plan selects: row groups and pages of Parquet files, and stripes of ORC files."""
