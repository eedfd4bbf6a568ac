"""The command that proves CUDA, or places graphs on it without a GPU: plans, proofs, and the table that it prints.

Importing this imports nothing heavy; `posenc_export.proof.cuda.prove` does the work.
"""
