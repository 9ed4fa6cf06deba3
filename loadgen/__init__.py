"""Load for spojoin's services, faults, independent checks of every result, a demo, and comparisons with others."""

__version__ = "0.1.0"
