"""Load, checks, faults, a demo and measurements for spojoin: its command is `loadgen`."""
