"""Rows: data sets, and how they come into a query's input topics."""
