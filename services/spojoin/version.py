"""The version of the distribution, which every part of it reports."""

__version__ = "0.1.0"
