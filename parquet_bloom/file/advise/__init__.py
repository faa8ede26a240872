"""Advice on which columns deserve filters.

`survey` reads single files, `merge` and `estimates` combine surveys, `verdict` judges columns with these and `engines`,
and `report` presents the result.
"""
