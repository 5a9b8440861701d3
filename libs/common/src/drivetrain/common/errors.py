"""Errors that a person can mend."""


class CannotStart(Exception):
    """Raised while a service starts: something around it is not as it must be. The message says what, and the remedy.

    The service ends with that message and status 1, without a traceback: nothing is wrong with the program.
    """
