"""ORC's Bloom filters: encodings, hashes, and writers whose filters cannot be trusted."""
