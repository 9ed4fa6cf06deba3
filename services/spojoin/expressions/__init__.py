"""SQL expressions over Arrow columns, evaluated by DuckDB or, if they are plain, by Arrow."""
