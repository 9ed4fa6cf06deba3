"""The intake: reads some of the inputs' partitions, and writes their rows, coded, in blocks."""
