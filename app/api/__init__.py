"""Functions that the pages call. They take and return JSON, and use neither Streamlit nor HTTP."""
