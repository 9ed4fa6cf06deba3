"""What services report of themselves: metrics, status, health, log lines, and who is missing."""
