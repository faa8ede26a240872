"""The plan of a scan as data: files, row groups, row selections, residuals, and their wording.

It imports nothing else of `scan`.
"""
