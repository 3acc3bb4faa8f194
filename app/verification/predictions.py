"""Repeat the logged selections that were based on the predictions of another model.

The log has the digest of these predictions. If they have been replaced since, the selection can't be
repeated. In that case, only check that the items could be selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from closecall.app.engine.model_predictions import Choosing, ConceptPredictions
from closecall.app.engine.selection_parameters import GROUP_RULE, PREDICTED, PREDICTIONS
from closecall.app.verification.report import named
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.verification.replay import Replay
    from closecall.app.verification.report import Findings
    from closecall.core.pool.pool import Pool


def select_again(
    replays: Sequence[Replay], then: Pool, predictions: ConceptPredictions, findings: Findings
) -> Iterator[str]:
    """Repeat the selections. Yield a sentence for each selection that differs now or can't be repeated.

    Parameters
    ----------
    replays : sequence of Replay
        Selections based on predictions.
    then : Pool
        The snapshot from which the items were selected.
    predictions : ConceptPredictions
        The present predictions.
    findings : Findings
        `Findings.replaced` is updated.
    """
    for replay in replays:
        record = replay.record
        logged = {other.parameters[PREDICTED]["place"]: other for other in replay.records}
        try:
            by, digest = Choosing.of(record.parameters[PREDICTIONS]), record.parameters[PREDICTIONS]["digest"]
            present = predictions.of(by.model)
            if present is None or present.source.digest != digest:
                findings.replaced += 1
                excluded = [item.item for item in logged.values() if item.item in replay.exclude]
                if excluded:
                    yield f"Round {record.round}: {named('item', excluded)} could not be selected"
                continue
            n, groups = record.parameters[PREDICTED]["n"], replay.standing.groups
            rule = record.parameters.get(GROUP_RULE, 1)
            found = present.select(by.order, then, replay.exclude, replay.trained, n, groups, rule=rule)
        except KeyError:
            yield f"Round {record.round}: the log lacks the model whose predictions chose the items"
            continue
        except InputError as error:
            yield f"Round {record.round}: the selection by predictions can't be repeated: {error}"
            continue
        items = found.ids.tolist()
        if {place: other.item for place, other in logged.items()} != dict(enumerate(items)):
            yield (
                f"Round {record.round}: the predictions of {by.model} choose {named('item', items)}, "
                f"the log has {named('item', [logged[place].item for place in sorted(logged)])}"
            )
        for other in logged.values():
            about = present.about(other.item) or {}
            shown = other.parameters[PREDICTED]
            if (about.get("answer"), about.get("score")) != (shown.get("answer"), shown.get("score")):
                yield f"Round {record.round}: item {other.item} was shown with another prediction"
