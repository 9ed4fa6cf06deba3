"""Settings of all tests."""

from hypothesis import settings

# How long an example takes says more of the machine, and of kernels that compile, than of the code. Examples are the
# same in each run, so that a failure is the change's that it appears with; `make fuzz` looks for new ones.
settings.register_profile("spojoin", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1_000)
settings.load_profile("spojoin")


def pytest_addoption(parser):
    parser.addoption("--run-cluster", action="store_true", help="run the tests that need a Kubernetes cluster")
