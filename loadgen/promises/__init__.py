"""The benchmark: every promised speed as a ratio within one run, with the machine's name."""
