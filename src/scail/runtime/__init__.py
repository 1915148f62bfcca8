"""Where and how it runs: devices, ranks, processes, seeds. Nothing here knows methods or data."""
