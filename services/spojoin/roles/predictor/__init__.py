"""Estimates which keys are hot and how many pairs match, as advice for the router; nothing ever waits for it."""
