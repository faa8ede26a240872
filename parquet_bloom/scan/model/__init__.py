"""The plan of a scan as data: files, row groups, row selections, residuals, and their wording.

It imports nothing else of `scan`; `row_selection` is below `data_file`, which with `partitions` is below `plan` and
`columns`, and `wording` builds on `plan`.
"""
