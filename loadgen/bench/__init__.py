"""The parts that all benchmarks share: sections, results, figures with bars, and pages."""
