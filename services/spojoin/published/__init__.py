"""Published methods and layouts: exact, and beside the product's own way to be compared with it."""
