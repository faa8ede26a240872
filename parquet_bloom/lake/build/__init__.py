"""Writers of the index.

`segment_builder` makes segments, `maintenance` builds on it to merge and remove, and `append` on both to publish new
files.
"""
