"""The command that proves CUDA: the plan, the proofs, and the table that it prints.

Importing this imports nothing heavy; `posenc_export.cuda.prove` does the work.
"""
