"""The logical AND: combines the predicates' partial evaluations of the mutable part."""
