"""Options of pytest: here, where pytest looks for them whatever the command line names."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --scheme NAME, all tests of one scheme."""
    parser.addoption("--scheme", metavar="NAME", help="run every test of a scheme, the exhaustive ones too")
