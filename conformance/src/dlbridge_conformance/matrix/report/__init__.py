"""The matrix as text, JSON, Markdown and HTML."""
