"""The papers' methods of search, compared as in the papers' figures."""
