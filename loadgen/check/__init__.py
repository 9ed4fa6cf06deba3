"""Whether results are right: the nested loop, the completeness job on Spark, and verdicts."""
