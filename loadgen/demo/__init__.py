"""The main job: real flights through PySpark, Kafka and all services, checked against the oracle."""
