"""What the pages need from the server, as functions on JSON that use neither Streamlit nor HTTP."""
