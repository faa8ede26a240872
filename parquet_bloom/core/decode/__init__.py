"""Decoders of encoded bytes: snappy blocks, and the lengths of strings in ORC.

The modules are independent of each other.
"""
