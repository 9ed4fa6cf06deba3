"""Results of a served query, for Python: they are read from Kafka."""
