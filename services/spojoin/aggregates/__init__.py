"""The aggregates: each is one object that has all that statements, plans and sinks need."""
