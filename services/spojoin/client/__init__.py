"""Reads the results of a served query from Kafka, for Python users."""
