"""Files by real writers, and surgery on such files: every kind that the tests read."""
