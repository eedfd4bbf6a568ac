"""How what a source gives meets the values of a call: rows are returned or added to x, queries and keys are rotated.

Schemes and sources use it. The names of `forward`'s arguments are those of the ports.
"""
