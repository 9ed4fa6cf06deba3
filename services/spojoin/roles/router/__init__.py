"""The router: puts all inputs into one order and writes the log."""
