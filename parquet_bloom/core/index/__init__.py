"""Kernels of the lake index: postings, and aligned cuckoo filters."""
