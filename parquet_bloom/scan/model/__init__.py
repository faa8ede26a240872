"""The plan of a scan as data: files, row groups, row selections and residuals. It imports nothing else of `scan`."""
