"""What is measured: an adapter an engine."""
