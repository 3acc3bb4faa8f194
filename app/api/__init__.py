"""JSON in, JSON out: no Streamlit, no HTTP."""
