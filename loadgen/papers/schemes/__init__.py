"""The published schemes for distributed state of SPO-Join and STA, simulated with the errors that they cause."""
