"""Networks by name, and the weights that they may begin with."""
