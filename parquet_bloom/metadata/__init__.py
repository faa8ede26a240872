"""Decoders and encoders of Parquet metadata, on bytes in memory: no access to files.

`thrift_compact` and `protobuf` decode the encodings, `footer`, `page_index` and `filter_header` build on them.
"""
