from closecall.storage.archive import Archive
from closecall.storage.concepts import Concepts
from closecall.storage.copies import backup, removal, restore
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.exports import export
from closecall.storage.fold import LabelState, Standing
from closecall.storage.happenings import Happenings
from closecall.storage.leading import Lead
from closecall.storage.leases import Activity, LeaseTable
from closecall.storage.log import LabelLog
from closecall.storage.notices import Notice
from closecall.storage.records import (
    AnswerRecord,
    AppendResult,
    ConceptRecord,
    Counts,
    ExampleRecord,
    HappeningRecord,
    Labels,
    LogRow,
    Refusal,
    SelectionRecord,
    SessionRecord,
    WebhookRecord,
    new_id,
)
from closecall.storage.session_claims import Claims
from closecall.storage.webhooks import Webhooks

__all__ = [
    "Activity",
    "AnswerRecord",
    "AppendResult",
    "Archive",
    "Claims",
    "ConceptRecord",
    "Concepts",
    "Counts",
    "Database",
    "ExampleRecord",
    "HappeningRecord",
    "Happenings",
    "LabelLog",
    "LabelState",
    "Labels",
    "Lead",
    "LeaseTable",
    "LogRow",
    "Notice",
    "Refusal",
    "SelectionRecord",
    "SessionRecord",
    "Standing",
    "StorageError",
    "WebhookRecord",
    "Webhooks",
    "backup",
    "export",
    "new_id",
    "removal",
    "restore",
]
