"""How labels, texts, images and numbers are shown to people."""
