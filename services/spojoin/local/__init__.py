"""A Kafka broker and a Redis server on this machine, for users without containers and for tests."""
