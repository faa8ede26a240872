"""The data files that an index covers: listed, hashed, recorded in a table, and checked to be unchanged."""
