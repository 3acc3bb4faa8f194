"""Find similar: the items of a pool nearest to a picked item, an uploaded image, or all yes answers.

`query` describes the query, `result` holds the neighbours found, and `session` shows them and takes answers.
`app.indexes.similar` prepares the indexes.
"""
