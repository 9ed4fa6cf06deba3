"""The permutation service: makes one immutable batch of the predicates' sorted runs."""
