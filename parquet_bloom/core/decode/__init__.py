"""Decoders of encoded bytes: snappy blocks, sizes of LZ4 blocks, Avro records, lengths of strings in ORC."""
