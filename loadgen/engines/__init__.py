"""A benchmark of stream inequality joins that anybody can implement: see SPEC.md."""
