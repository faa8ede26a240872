"""The plan of a scan as data: files, row groups, row selections, residuals, and their wording.

It imports nothing else of `scan`; `row_selection` is below `data_file`, that below `partitions`, and that below
`plan`, which `wording` builds on.
"""
