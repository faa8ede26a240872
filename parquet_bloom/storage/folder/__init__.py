"""A program's own folder, on disk or in an object store: names that one writer gets, and its lock.

`lock` and `objects` come first, and `folder` builds on both.
"""
