"""Rows found in, and taken out of, the pages of column chunks.

`sparse` is the entry: row groups of many files. `chunk_batch` walks their pages, searches and takes, over files of any
kind: `fetcher` fetches what it will read of remote ones into `fetched_ranges`, by the page indexes that `lookup` reads
and confirms. `plain` has the columns and their arrays, `decompress` unpacks pages.
"""
