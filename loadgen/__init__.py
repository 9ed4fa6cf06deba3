"""Workloads, the PySpark feed into the input topics, and the PySpark completeness checker."""
