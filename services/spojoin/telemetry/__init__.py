"""Reports of services about themselves: metrics, status, health, log lines, and missing services."""
