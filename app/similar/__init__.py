"""Find similar: the items of a pool that are nearest to one that somebody picked, uploaded, or answered yes.

`query` says what is looked for, `core.similar.finder` finds it, `methods` prepares indexes in the background,
`metric` learns from the labels what near means, `search` is one that was made, `session` shows the items and
takes the answers, and `card` is what the page is told; `replay` makes a search again that the log tells of.
Nothing here knows Streamlit.
"""
