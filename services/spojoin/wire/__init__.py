"""Records, and their bytes."""
