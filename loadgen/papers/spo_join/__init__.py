"""SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), section 5.4: figures 7 to 23."""
