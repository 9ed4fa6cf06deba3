"""Free functions on arrays: numba and numpy only."""
