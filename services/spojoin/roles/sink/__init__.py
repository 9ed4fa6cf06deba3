"""The sink: combines all parts of a frame and writes results in order, each once."""
