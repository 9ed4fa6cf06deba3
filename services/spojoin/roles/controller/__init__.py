"""The controller: turns a number of worker pods into a layout in the log, and decides on that number where asked to."""
