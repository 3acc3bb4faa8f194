"""What goes wrong in a way that a user can mend: one clear sentence, never a traceback."""


class InputError(Exception):
    """Bad input. The message is one sentence: what it is about, what was given, what is allowed."""
