"""What people read: terminal, HTML, Markdown, GitHub."""
