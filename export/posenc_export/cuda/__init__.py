"""The one command that proves CUDA: what is tried, what came of it, and the table that it prints.

Importing this imports nothing heavy; `posenc_export.cuda.prove` does the work.
"""
