"""Published methods of searching a window, made exact, behind one interface."""
