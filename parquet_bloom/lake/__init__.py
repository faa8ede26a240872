"""The lake index: from a value to the files that may hold it, among a million, by one small read."""
