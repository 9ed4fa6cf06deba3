"""PIM-Tree (Shahvarani, Jacobsen, SIGMOD 2020), section 5: figures 8 to 13."""
