"""PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025), section 5: figures 10 to 18, patterns for interval joins."""
