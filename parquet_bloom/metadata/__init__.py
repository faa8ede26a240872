"""Decoders and encoders of Parquet and ORC metadata, on bytes in memory, without access to files.

`thrift_compact` decodes the encoding of Parquet, `footer` and then `footer_rewrite` and `page_index` build on it;
`filter_header` and `protobuf` (for ORC) are independent.
"""
