"""The errors of the client. Each message is one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ApiError(Exception):
    """The server refused a request.

    Parameters
    ----------
    status : int
        HTTP status of the server's reply.
    detail : str
        The reason, in one sentence.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class Forbidden(ApiError):  # noqa: N818 (its base class says that it is an error)
    """The token is missing or unknown (status 401), or does not permit the request (status 403)."""


class NotFound(ApiError):  # noqa: N818
    """The project, question, session or item does not exist."""


class Conflict(ApiError):  # noqa: N818
    """The request conflicts with the state of the project. For example, there is no classifier yet."""


class Refused(ApiError):  # noqa: N818
    """The server refused some answers for good. It stored all other answers that were sent with them.

    Parameters
    ----------
    reasons : mapping of str to str
        The reason for refusing each answer, by the id of the answer.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        first, others = next(iter(reasons.values())), len(reasons) - 1
        super().__init__(200, first + (f" ({others} more refused)" if others else ""))
        self.reasons = dict(reasons)

    def __reduce__(self) -> tuple[Any, ...]:
        return Refused, (self.reasons,)


class ConnectionLost(ConnectionError):  # noqa: N818
    """The server could not be reached, or could not do the request, within the time limit.

    Parameters
    ----------
    message : str
    answers : sequence of dict
        The answers that the server has not acknowledged, oldest first. They remain in the queue of their
        session. To send them from another process, give them to `Session.restore`.
    """

    def __init__(self, message: str, answers: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.answers = list(answers)

    def __reduce__(self) -> tuple[Any, ...]:
        return ConnectionLost, (str(self), self.answers)


class SignatureError(ValueError):
    """A webhook was not signed with the secret, or is too old."""


BY_STATUS: Mapping[int, type[ApiError]] = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict}


def error_of(status: int, detail: str) -> ApiError:
    """Return the error for a reply with this status."""
    return BY_STATUS.get(status, ApiError)(status, detail)
