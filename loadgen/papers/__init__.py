"""Every method of search side by side, as the papers' figures show them."""
