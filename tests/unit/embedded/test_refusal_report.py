import pytest

from spojoin.embedded.refusal_report import parse_reject_limit
from spojoin.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "refused", "rows", "is_broken"),
    [
        ("50%", 5, 10, False),
        ("50%", 6, 10, True),
        ("0.5", 5, 10, False),
        ("0.5", 6, 10, True),
        ("0.1%", 1, 1_000, False),
        ("0.1%", 2, 1_000, True),
        ("3", 3, 1_000, False),
        ("3", 4, 1_000, True),
        ("0", 1, 1_000, True),
        ("0", 0, 1_000, False),
        ("0", 0, 0, False),
        ("1", 2, 10, True),
        ("1.0", 9, 10, False),
        ("100%", 10, 10, True),
        ("1000", 10, 10, True),
        (0.1, 1, 10, False),
        (0.1, 2, 10, True),
        (1e-05, 1, 100_000, False),
        (3, 4, 1_000, True),
    ],
)
def test_shares_numbers_and_all(text, refused, rows, is_broken):
    assert parse_reject_limit(text).is_broken_by(refused, rows) is is_broken


@pytest.mark.parametrize("text", ["", "half", "-1", "1.5", "101%", "1e3", "nan", "50 %%", "٥"])
def test_other_limits_are_refused(text):
    with pytest.raises(ConfigurationError, match=f"--max-rejects {text}: .*expected a share of the rows, such as 0.5"):
        parse_reject_limit(text)
