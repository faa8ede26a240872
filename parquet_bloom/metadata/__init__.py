"""The Thrift side of a Parquet file: bytes in, facts and bytes out. Knows no file system."""
