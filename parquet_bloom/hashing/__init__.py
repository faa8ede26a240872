"""What the format calls a value's plain encoding: which bytes of a value, an array or a literal are hashed."""
