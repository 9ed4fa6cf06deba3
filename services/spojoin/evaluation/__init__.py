"""How a query is evaluated between router and sink: the product's own way, and alternatives to it."""
