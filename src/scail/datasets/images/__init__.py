"""Images: decoded, on disk, packed, and in batches."""
