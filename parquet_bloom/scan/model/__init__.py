"""The plan of a scan as data: files, row groups, decisions, residuals and their wording.

It imports nothing else of `scan`.
"""
