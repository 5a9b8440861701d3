"""The one error that a person at the terminal sees without a traceback."""


class CliError(RuntimeError):
    """Something the user can act on: what is wrong and what to do. `status` becomes the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
