"""The server's side of the pages as plain functions: JSON in, JSON out, without Streamlit or HTTP."""
