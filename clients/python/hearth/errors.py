"""Makes errors in the way of the native module."""

from hearth._native import HearthError


def hearth_error(code: str, message: str) -> HearthError:
    """Returns the error; `code` is a name of docs/reference/errors.md."""
    error = HearthError(message)
    error.code = code
    return error
