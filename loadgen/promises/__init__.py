"""The benchmark: every speed that is promised, as a ratio within one run, with the machine named."""
