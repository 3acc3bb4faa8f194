"""Find similar: the items of a pool nearest to a picked item, an uploaded image, or all items answered yes.

The module `query` describes queries, and `result` describes the neighbours found. The view in `session` shows
the neighbours and stores answers about them. `app.indexes.similar` prepares the indexes.
"""
