"""Static pages made of Markdown, with a search: read from a folder or any server, nothing comes from another host."""
