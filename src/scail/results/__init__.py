"""What was measured: rows, run folders, and the archive of numbers that are kept."""
