"""A PO-Join worker: the immutable batches that the worker count assigns to it."""
