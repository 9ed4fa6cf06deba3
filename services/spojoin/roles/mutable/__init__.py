"""A mutable joiner: evaluates its predicates over the tuples that are not handed over yet."""
