"""Rows found in, and taken out of, the pages of column chunks.

`sparse` is the entry: row groups of many files. `chunk_batch` walks their pages, searches and takes, over files of any
kind: `fetcher` fetches what it will read of remote ones into `fetched_ranges`, by the page indexes that `lookup` reads
and confirms. `plan` has the columns, `plain` their arrays, `rows` and `decompress` unpack pages. `reader` is one row
group of one file. `chunk_values` takes all values of a chunk, for filters; `buffered_chunk` is independent.
"""
