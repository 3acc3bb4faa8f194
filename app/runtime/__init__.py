"""What runs beside the pages: threads, child processes, the event log."""
