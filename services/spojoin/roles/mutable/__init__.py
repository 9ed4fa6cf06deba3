"""A mutable joiner: its share of the predicates over the tuples that are not handed over yet."""
