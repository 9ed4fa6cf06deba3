"""The deterministic simulator: real state machines over an in-memory log, seeded faults, and a naive oracle."""
