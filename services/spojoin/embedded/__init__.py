"""The whole join in one process: for files, and for Python users."""
