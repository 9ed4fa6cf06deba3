"""STA, stream-aware indexing (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), section 7: figures 11 to 35."""
