"""The command `spojoin`."""
