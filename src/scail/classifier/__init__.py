"""A classifier that keeps learning, as a value and in its folder."""
