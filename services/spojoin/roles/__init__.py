"""The services' state machines and mains, one room a role; no role imports another."""
