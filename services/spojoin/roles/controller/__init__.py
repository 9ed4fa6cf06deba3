"""The controller: requests in the log as many workers as pods are ready, and sets the number of pods where asked to."""
