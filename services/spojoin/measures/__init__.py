"""What partners add to a left row's sums: parts weigh the partners that they find, and the sink reads the sums."""
