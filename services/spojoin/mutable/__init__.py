"""A mutable joiner: one predicate over the tuples that are not handed over yet."""
