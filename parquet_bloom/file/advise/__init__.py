"""Advice on which columns deserve filters.

`survey` reads single files, `merge` and `estimates` combine them, `verdict` and `engines` judge, `report` presents it.
"""
