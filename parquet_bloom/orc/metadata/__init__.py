"""ORC's metadata: tail, stripes, schema, statistics, and the compression around them."""
