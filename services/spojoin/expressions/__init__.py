"""SQL expressions over Arrow columns, evaluated by DuckDB or, where they are plain, by Arrow."""
