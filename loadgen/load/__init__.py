"""Data sets, and ways to send them into a query's input topics."""
