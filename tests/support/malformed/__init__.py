"""Files with one wrong field each, and the matrix of questions that they are asked."""
