"""A page for people: one query's flow as a graph, with rates, lag, health, window, latest results and dead letters."""
