"""Decoders of encoded bytes: snappy blocks, records of Avro files, and the lengths of strings in ORC.

The modules are independent of each other.
"""
