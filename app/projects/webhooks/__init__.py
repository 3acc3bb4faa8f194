from closecall.app.projects.webhooks.happening_watch import HappeningWatch
from closecall.app.projects.webhooks.sender import WebhookSender

__all__ = ["HappeningWatch", "WebhookSender"]
