"""What SPO-Join and STA publish of their distributed state, simulated with the errors that it causes."""
