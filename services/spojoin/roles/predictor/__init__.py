"""Which keys are hot and how much matches: advice for the router, for which nothing ever waits."""
