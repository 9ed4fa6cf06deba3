"""EXPLAIN: how a query will be run, what each service will hold, and how selective the conditions of a sample are."""
