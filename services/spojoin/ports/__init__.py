"""The log, the store and the clock: as interfaces, and as adapters over Kafka, Redis and plain memory."""
