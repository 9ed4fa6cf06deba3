"""The measured engines, each with an adapter."""
