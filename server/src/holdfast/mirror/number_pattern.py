"""A pattern for all numbers up to a given one, because rclone selects files only by patterns."""


def up_to(number: int) -> str:
    """A regular expression for the decimal numbers from 0 to this one, without leading zeros."""
    digits = str(number)
    shorter = [f"[0-9]{{1,{len(digits) - 1}}}"] if len(digits) > 1 else []
    same_length = [
        digits[:at] + _range(1 if at == 0 and len(digits) > 1 else 0, int(digit) - 1) + _any(len(digits) - at - 1)
        for at, digit in enumerate(digits)
        if int(digit) > (1 if at == 0 and len(digits) > 1 else 0)
    ]
    return "|".join([*shorter, *same_length, digits])


def _range(first: int, last: int) -> str:
    return f"[{first}-{last}]"


def _any(count: int) -> str:
    return f"[0-9]{{{count}}}" if count else ""
