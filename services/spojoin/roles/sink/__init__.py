"""The sink: brings together all parts of a frame and writes results in order, each once."""
