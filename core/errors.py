"""The error that users can correct, shown as one sentence without a traceback."""


class InputError(Exception):
    """Invalid input. The message is one sentence: the argument, the value given and the values allowed."""
