"""The Python client of the HTTP API. It imports nothing from the rest of the program.

Start with `Client`. `docs/programs.md` has examples.
"""

from closecall.client.client import Client
from closecall.client.errors import (
    ApiError,
    Conflict,
    ConnectionLost,
    Forbidden,
    NotFound,
    Refused,
    SignatureError,
)
from closecall.client.log import AnswerLog
from closecall.client.model import Model
from closecall.client.project import Project
from closecall.client.records import Answer, Concept, Found, Label, Prediction
from closecall.client.session import Item, Session
from closecall.client.webhooks import verify_signature

__all__ = [
    "Answer",
    "AnswerLog",
    "ApiError",
    "Client",
    "Concept",
    "Conflict",
    "ConnectionLost",
    "Forbidden",
    "Found",
    "Item",
    "Label",
    "Model",
    "NotFound",
    "Prediction",
    "Project",
    "Refused",
    "Session",
    "SignatureError",
    "verify_signature",
]
