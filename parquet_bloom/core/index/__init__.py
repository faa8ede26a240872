"""The inner loops of the lake index: postings, and aligned cuckoo filters."""
