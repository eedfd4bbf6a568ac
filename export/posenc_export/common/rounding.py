"""Numbers of two digits that promise a bound."""

import math


def ceiling(number: float) -> str:
    """Return a number with two digits, rounded up: what is at most this is true of the number, too."""
    if not number or not math.isfinite(number):
        return f"{number:.2g}"
    step = 10.0 ** (math.floor(math.log10(abs(number))) - 1)
    # what is a number of two digits already stays, whatever its last bit is
    return f"{math.ceil(number / step - 1e-9) * step:.2g}"
