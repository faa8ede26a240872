"""The lake index: from a value to the files that may hold it, among a million, by one small read.

`parts` is the stored form, `files` are the data files, `manifest`, `segment` and `snapshot` read an index, `build`,
`check` and `select` build on these, and `index` is the public class on top.
"""
