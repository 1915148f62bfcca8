"""What is claimed about speed and cost, measured. `make bench` runs all of it."""
