"""The controller: requests as many workers in the log as pods are ready, and sets the number of pods if configured."""
