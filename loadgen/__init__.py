"""Load generation, fault injection, independent checks of all results, a demo, and comparisons with other engines."""

__version__ = "0.1.0"
