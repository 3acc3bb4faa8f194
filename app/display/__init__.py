"""How labels, texts, images and numbers look to people."""
