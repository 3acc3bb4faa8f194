from storage.archive import Archive
from storage.concepts import Concepts
from storage.copies import backup, restore
from storage.database import Database
from storage.errors import StorageError
from storage.exports import export
from storage.fold import LabelState, Standing
from storage.log import LabelLog
from storage.records import (
    AnswerRecord,
    AppendResult,
    ConceptRecord,
    Counts,
    ExampleRecord,
    Labels,
    LogRow,
    Refusal,
    SelectionRecord,
    SessionRecord,
    new_id,
)

__all__ = [
    "AnswerRecord",
    "AppendResult",
    "Archive",
    "ConceptRecord",
    "Concepts",
    "Counts",
    "Database",
    "ExampleRecord",
    "LabelLog",
    "LabelState",
    "Labels",
    "LogRow",
    "Refusal",
    "SelectionRecord",
    "SessionRecord",
    "Standing",
    "StorageError",
    "backup",
    "export",
    "new_id",
    "restore",
]
