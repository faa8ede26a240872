"""What pruning found as a picture: one page that stands alone, and a small one for notebooks."""
