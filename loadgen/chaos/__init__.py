"""`loadgen chaos`: faults by seed and schedule, while every result is compared with the join's definition."""
