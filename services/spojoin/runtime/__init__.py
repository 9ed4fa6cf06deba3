"""Runs a machine as a service: settings, the loop over the ports, inputs, the outbox, generations."""
