"""The resources of a project: settings, pool, database, indexes and roles."""
