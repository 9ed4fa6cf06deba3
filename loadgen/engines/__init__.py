"""A benchmark of stream inequality joins that other engines can implement: see README.md."""
