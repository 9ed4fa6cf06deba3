"""The papers' figures: a module for each paper, with its figures in `ENTRIES`."""
