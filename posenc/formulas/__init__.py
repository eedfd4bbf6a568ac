"""The mathematics of each scheme in float64, a file a scheme: NumPy, written from the papers.

`reference` gives the numbers of a call from its positions. It judges the scheme's module, and shares no code with it
but the records of parameters.
`fit` goes the other way: it guesses the parameters that give observed numbers, and `fitting` compares the numbers.
`fitting` has what all fits share, `families` what is true of a kind of encoding; several formulas use `parts` and
`rope_types`.
Nothing here imports torch.
"""
