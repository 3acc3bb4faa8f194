"""Find similar: the items of a pool that are nearest to one that somebody picked, uploaded, or answered yes.

`query` says what is looked for, `search` is one that was made, `session` shows the items and takes the
answers, and `card` describes it to the page. `app.indexes.similar` prepares the indexes.
"""
