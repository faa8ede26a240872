"""Decode columns of rows, by pages or by columns as `choose_decoder` says, and of ORC files."""
