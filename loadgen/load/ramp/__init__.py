"""`loadgen ramp`: the highest rate that holds, and how latency grows towards it."""
