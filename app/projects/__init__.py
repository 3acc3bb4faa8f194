"""What a project owns: its settings, pool, database, indexes and people."""
