"""Errors that users see as one sentence: invalid input, and the reason why a strategy failed."""


class InputError(Exception):
    """Invalid input. The message is one sentence: the argument, the value given and the values allowed."""


def reason(error: Exception) -> str:
    """Return the reason for any error of a strategy, as a sentence without a full stop."""
    if isinstance(error, MemoryError):
        return "it ran out of memory"
    said = " ".join(str(error).split()).removesuffix(".")
    return said if isinstance(error, InputError) else f"{type(error).__name__}: {said}".removesuffix(": ")
