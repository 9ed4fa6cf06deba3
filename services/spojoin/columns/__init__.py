"""Columns of Arrow data as values, codes and event times of declared types; types inferred from data."""
