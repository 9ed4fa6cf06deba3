"""What SPO-Join and STA publish of their distribution, simulated with its errors."""
