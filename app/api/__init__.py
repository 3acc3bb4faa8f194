"""The functions behind the pages, with JSON as input and output, independent of Streamlit and HTTP."""
