"""Send deliveries to one webhook, one after another. Each delivery is repeated until it succeeds."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from closecall.app.projects.webhooks.delivery import MOST_EVENTS, Post, body_of, headers_of
from closecall.app.projects.webhooks.events import events_of
from closecall.app.runtime.background import Troubles
from closecall.app.runtime.event_log import emit
from closecall.storage import StorageError, WebhookRecord, Webhooks
from closecall.storage.backlog import Batch, next_batch

FAR = 10_000
"""After this many answers without an event for the webhook, the webhook's positions are stored anyway."""


@dataclass(frozen=True)
class Pauses:
    """Pauses of the sender of webhooks, in seconds.

    Parameters
    ----------
    gather : float
        Time between a new event and its delivery. Events within this time are delivered together, because
        each delivery costs a write to the database, which must not slow down the writing of answers.
    look : float
        Time between two checks for webhooks that were added or removed, and for events that another process
        has stored.
    first, longest : float
        Pause after the first failure, and the longest pause; the pause doubles with each failure.
    """

    gather: float = 0.3
    look: float = 2.0
    first: float = 1.0
    longest: float = 300.0

    def after(self, failures: int, draw: float) -> float:
        """Return the pause in seconds after this many failures in a row.

        The pause is shortened by up to half, in proportion to the random number `draw` from 0 to 1. If
        several receivers fail together, the deliveries are therefore not all repeated at the same time.
        """
        return min(self.longest, self.first * 2.0 ** min(failures - 1, 60)) * (1 - draw / 2)


class Deliveries(threading.Thread):
    """A thread that sends events to a webhook, in order, and repeats each delivery until it is accepted.

    The webhook's positions in the logs move after the receiver has accepted a delivery. If the process ends
    before that, the events are sent again. Each event is therefore delivered at least once.

    Parameters
    ----------
    webhook : WebhookRecord
        The webhook with its current positions.
    project : str
        The project's key.
    webhooks : Webhooks
        Stores the positions.
    leads : callable
        Returns whether this process sends the project's events. If not, the thread ends.
    pauses : Pauses
    post : callable
        Sends a delivery; see `Post`.
    troubles : Troubles
        Gets unexpected errors.
    """

    def __init__(
        self,
        webhook: WebhookRecord,
        project: str,
        webhooks: Webhooks,
        leads: Callable[[], bool],
        pauses: Pauses,
        post: Post,
        troubles: Troubles,
    ) -> None:
        super().__init__(name=f"webhook-{webhook.id}", daemon=True)  # don't wait at exit for a receiver
        self._webhook = webhook
        self._stored_through = webhook.answers_through
        self._project = project
        self._webhooks = webhooks
        self._leads = leads
        self._pauses = pauses
        self._post = post
        self._troubles = troubles
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._is_abandoned = False

    def wake(self) -> None:
        """Send new events soon."""
        self._woken.set()

    def end(self) -> None:
        """Send nothing more. A request that is under way may still succeed."""
        self._ending.set()
        self._woken.set()

    def abandon(self) -> None:
        """Write nothing to the database from now on, not even the result of a request that is under way."""
        self._is_abandoned = True

    def run(self) -> None:
        """Send the backlog, then new events, until `end`."""
        errors, what = 0, f"Sending to webhook {self._webhook.id}"
        while self._goes_on():
            try:
                self._send_backlog()
            except Exception as error:  # noqa: BLE001 (an error that nobody expected must not end the thread)
                if self._ending.is_set():
                    return
                errors += 1
                self._troubles.note(what, error)
                self._rest(errors)
                continue
            self._troubles.note(what, None)
            errors = 0
            self._woken.wait()
            self._woken.clear()
            self._ending.wait(self._pauses.gather)

    def _goes_on(self) -> bool:
        return not self._ending.is_set() and self._leads()

    def _rest(self, failures: int) -> None:
        self._ending.wait(self._pauses.after(failures, random.random()))

    def _send_backlog(self) -> None:
        while self._goes_on():
            batch = next_batch(self._webhooks.database, self._webhook, MOST_EVENTS)
            if batch.entries and not self._send(batch):
                return
            self._move(batch)
            if batch.is_last:
                return

    def _send(self, batch: Batch) -> bool:
        """Repeat a delivery until it succeeds, and return true; return false if the thread must end first."""
        webhook, failures = self._webhook, 0
        body = body_of(webhook.id, events_of(batch, self._project))
        while self._goes_on():
            began = time.perf_counter()
            problem = self._post(webhook.url, body, headers_of(webhook.secret, body))
            emit(
                "webhook",
                webhook=webhook.id,
                events=len(batch.entries),
                is_delivered=problem is None,
                ms=round(1000 * (time.perf_counter() - began), 1),
            )
            if problem is None:
                return True
            failures += 1
            if not self._is_abandoned:
                with suppress(StorageError):  # the problem is shown to owners; nothing depends on it
                    self._webhooks.failed(webhook.id, problem)
            self._rest(failures)
        return False

    def _move(self, batch: Batch) -> None:
        """Move the positions past a batch that was delivered, or that has no events for this webhook."""
        self._webhook = replace(
            self._webhook,
            answers_through=batch.answers_through,
            happenings_through=batch.happenings_through,
        )
        if batch.entries or batch.answers_through - self._stored_through >= FAR:
            self._store_positions(is_success=bool(batch.entries))

    def _store_positions(self, *, is_success: bool) -> None:
        """Store the positions. While the database can't be written, try again after growing pauses."""
        webhook, failures = self._webhook, 0
        while not self._is_abandoned:
            try:
                self._webhooks.delivered(
                    webhook.id, webhook.answers_through, webhook.happenings_through, is_success=is_success
                )
            except StorageError:
                failures += 1
                self._rest(failures)
                if self._ending.is_set():
                    return
            else:
                self._stored_through = webhook.answers_through
                return
