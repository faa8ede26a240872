"""What is known of files that were opened: their footers, and of objects in a store also their filters.

`memory` keeps it for a process, and `disk`, behind it, for others.
"""
