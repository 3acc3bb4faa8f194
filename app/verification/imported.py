"""Compare imported answers with the digests of their files."""

from __future__ import annotations

from collections.abc import Sequence

from closecall.app.display.phrases import counted
from closecall.app.verification.report import Findings
from closecall.storage import AnswerRecord, SessionRecord
from closecall.storage.imports import GIVEN, IMPORT, combined, is_derived


def check_imported(
    answers: Sequence[AnswerRecord], sessions: Sequence[SessionRecord], findings: Findings
) -> int:
    """Check that imported answers agree with their files; return the number of imported answers.

    An answer's id is either derived from its content and from the file's digest, or copied from the file. The
    session has a digest of all answers with copied ids.
    """
    files = {its.id: its.parameters[IMPORT] for its in sessions if IMPORT in its.parameters}
    given: dict[str, list[AnswerRecord]] = {}
    number = 0
    for answer in answers:
        file = files.get(answer.session_id)
        if file is None and answer.purpose == "import":
            findings.problems.append(f"Answer {answer.id} is imported, but its session names no file")
        elif file is not None and answer.corrects is None and answer.undoes is None:
            number += 1
            if is_derived(file["digest"], answer):
                continue
            if GIVEN in file:
                given.setdefault(answer.session_id, []).append(answer)
            else:
                findings.problems.append(
                    f"Answer {answer.id} about item {answer.item} differs from its file: {answer.answer}"
                )
    for session, file in files.items():
        own = given.get(session, [])
        if GIVEN in file and combined(own) != file[GIVEN]:
            findings.problems.append(
                f"One of {counted(len(own), 'answer')} in session {session} differs from its file "
                f"{file['file']}, or is missing"
            )
    return number
