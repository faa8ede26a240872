"""Acting on the rows that are found: erasing them."""
