import pytest
from hypothesis import settings

# A busy machine is no fault of the code under test.
settings.register_profile("operator", deadline=None)
settings.load_profile("operator")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden manifests anew instead of comparing"
    )
