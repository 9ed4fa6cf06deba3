"""The query language: one YAML file is a query; parsing, validation, key columns and EXPLAIN."""
