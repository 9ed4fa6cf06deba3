"""EXPLAIN: a query's plan, what each service will hold, and how selective the conditions are on a sample."""
