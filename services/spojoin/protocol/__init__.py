"""The exactness protocol: the topics of each role, the state machines, and how the log is read."""
