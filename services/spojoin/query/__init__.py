"""The query language: statements and query files, parsed, checked, and translated into the data of `model.py`."""
