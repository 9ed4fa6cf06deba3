"""Checks of results: the nested loop, the completeness job on Spark, and verdicts."""
