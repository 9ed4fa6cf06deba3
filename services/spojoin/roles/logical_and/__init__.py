"""The logical AND: meets the predicates' partial evaluations of the mutable part."""
