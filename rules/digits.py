"""Numbers as people read them: as many digits as tell something, and no exponents."""

from featurestore import explained


def digits(value: float) -> str:
    """Return *value* in three digits, all of its whole ones where these are more: 0.0123, 28.9, 1,536."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def percent(share: float) -> str:
    """Return *share* in whole percent, below one in tenths."""
    if share < 0.0005:
        return "less than 0.1%"
    return explained.percent(round(100 * share, 1 if share < 0.01 else 0) / 100)  # 49.5 is a half, 0.495 less
