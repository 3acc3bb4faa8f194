"""Send a project's events to its webhooks, in the background.

Answers never wait for the sender. Storing an answer only sets a flag, which wakes a thread. Each webhook has
a thread of its own, so that a receiver that hangs doesn't delay deliveries to other receivers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from closecall.app.projects.webhooks.deliveries import Deliveries, Pauses
from closecall.app.projects.webhooks.delivery import HttpPost, Post
from closecall.app.runtime.background import Troubles, Watch
from closecall.storage import Database, WebhookRecord, Webhooks

END_SECONDS = 1.0
"""Longest time that `WebhookSender.close` waits for requests that are under way."""


def always() -> bool:
    """Return true. This is `leads` for a process that serves the project alone."""
    return True


class WebhookSender:
    """The sender of a project's events.

    Webhooks that other processes add or remove are noticed within `Pauses.look` seconds.

    Parameters
    ----------
    database : Database
        The project's database.
    project : str
        The project's key.
    troubles : Troubles
        Gets unexpected errors. A receiver's problem is stored with its webhook.
    leads : callable
        Returns whether this process sends the project's events; of several servers, only one does.
    pauses : Pauses
    post : callable
        Sends a delivery; see `Post`.
    """

    def __init__(
        self,
        database: Database,
        project: str,
        troubles: Troubles,
        *,
        leads: Callable[[], bool] = always,
        pauses: Pauses | None = None,
        post: Post | None = None,
    ) -> None:
        self.webhooks = Webhooks(database)
        self._project = project
        self._troubles = troubles
        self._leads = leads
        self._pauses = pauses or Pauses()
        self._post = post
        self._known: Sequence[WebhookRecord] = ()
        self._deliveries: dict[int, Deliveries] = {}  # by webhook
        self._leaving: list[Deliveries] = []
        self._ends: tuple[int, int] | None = None
        self._has_new = False
        self._next_look = 0.0
        self._watch = Watch("webhooks", self._work, self._pauses.look)

    @property
    def known(self) -> Sequence[WebhookRecord]:
        """Return the webhooks that are not paused, as last read from the database."""
        return self._known

    def start(self) -> None:
        """Start to send."""
        self._watch.start()
        self._watch.wake()

    def wake(self) -> None:
        """Send new events soon. This takes only microseconds, so that it doesn't delay answers."""
        if self._deliveries:
            self._has_new = True
            self._watch.wake()

    def refresh(self) -> None:
        """Read the webhooks from the database soon."""
        self._next_look = 0.0
        self._watch.wake()

    def close(self) -> None:
        """Stop sending. A receiver that doesn't answer within `END_SECONDS` gets the delivery again later."""
        self._watch.close()
        threads = [*self._deliveries.values(), *self._leaving]
        for one in threads:
            one.end()
        until = time.monotonic() + END_SECONDS
        for one in threads:
            one.join(max(0.0, until - time.monotonic()))
            one.abandon()

    def _work(self) -> None:
        """Wake the threads of the webhooks if there may be new events."""
        has_new, self._has_new = self._has_new, False
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._pauses.look
            with self._troubles.noted("Looking for webhooks"):
                has_new |= self._look()
        if has_new:
            for one in self._deliveries.values():
                one.wake()

    def _look(self) -> bool:
        """Start and end the threads of new and removed webhooks; return whether the logs have grown."""
        there = self.webhooks.all()
        wanted = {one.id: one for one in there if not one.is_paused} if self._leads() else {}
        self._known = tuple(wanted.values())
        self._leaving = [one for one in self._leaving if one.is_alive()]
        for webhook_id, one in list(self._deliveries.items()):
            if webhook_id not in wanted or not one.is_alive():
                one.end()
                self._leaving.append(self._deliveries.pop(webhook_id))
        for webhook_id in wanted.keys() - self._deliveries.keys():
            self._deliveries[webhook_id] = self._started(wanted[webhook_id])
        before, self._ends = self._ends, self.webhooks.ends() if wanted else None
        return self._ends != before

    def _started(self, webhook: WebhookRecord) -> Deliveries:
        if self._post is None:
            self._post = HttpPost()
        thread = Deliveries(
            webhook, self._project, self.webhooks, self._leads, self._pauses, self._post, self._troubles
        )
        thread.start()
        return thread
