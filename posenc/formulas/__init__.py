"""The mathematics of each scheme in float64, a file a scheme: NumPy, written from the papers.

`reference` gives the numbers of a call from its positions. It judges the scheme's module, and shares no code with it.
Nothing here imports torch.
"""
