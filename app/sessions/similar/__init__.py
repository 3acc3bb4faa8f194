"""Find similar: the items of a pool nearest to a picked item, an uploaded image, or all yes answers.

`query` describes the query, `search` holds a result, and `session` shows the items and takes answers.
`app.indexes.similar` prepares the indexes.
"""
