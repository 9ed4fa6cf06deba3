"""What partners add to the sums of a left row: the parts that find them weigh them, and the sink reads the sums."""
