"""One round of active learning."""
