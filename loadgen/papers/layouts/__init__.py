"""Layouts: ways to spread the work of a join over n workers."""
