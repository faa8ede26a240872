"""Files with one wrong field each, and the matrix of operations on them."""
