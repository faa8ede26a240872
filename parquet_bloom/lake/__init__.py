"""The lake index: from a value to the files that may hold it, among a million, by one small read.

`parts` is the stored form, `files` are the data files, and `build` writes new segments from both; `index` is the public
class.
"""
