"""`loadgen chaos`: injects seeded faults on a schedule and compares every result with the join's definition."""
