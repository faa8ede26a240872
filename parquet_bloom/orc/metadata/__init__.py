"""ORC metadata: tail, stripes, schema, statistics, and their compression."""
