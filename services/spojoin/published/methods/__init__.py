"""Every published method to search a window, made exact, behind one interface."""
