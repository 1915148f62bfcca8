"""One file for each place that images come from."""
