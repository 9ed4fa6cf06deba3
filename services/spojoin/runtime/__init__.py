"""Log, store and clock ports; their Kafka, Redis and in-memory adapters; the loop that runs any machine over them."""
