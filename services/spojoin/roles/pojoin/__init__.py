"""A PO-Join worker: the immutable part of the window that the layout gives it."""
