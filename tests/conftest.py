"""Settings of all tests."""

from hypothesis import settings

# How long an example takes says more of the machine, and of kernels that compile, than of the code.
settings.register_profile("spojoin", deadline=None)
settings.load_profile("spojoin")


def pytest_addoption(parser):
    parser.addoption("--run-cluster", action="store_true", help="run the tests that need a Kubernetes cluster")
