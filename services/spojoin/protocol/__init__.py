"""The exactness protocol: which role talks where, what a state machine is, how the log is read."""
