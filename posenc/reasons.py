"""Why schemes of a family lack a form, or a way to give positions, for their `Unsupported`: it needs no torch."""

BIAS = {"trig": "a bias has no sines; leave --method trig out"}
"""Methods of a bias."""
GRID = {
    "offset": "a grid has no first position to shift; use --positions implicit",
    "explicit": "places are those of the grid; use --positions implicit",
}
"""Positions of a grid whose places are counted."""
WINDOW = {
    "offset": "a window has no first position to shift; use --positions implicit",
    "explicit": "places are those of the window; use --positions implicit",
    "mask": "a window has no padding to count from; use --positions implicit",
}
"""Positions of a window of attention."""
DISTANCES = {
    "offset": "a distance does not change where both ends move; use --positions implicit",
    "explicit": "rows are of distances in a row, and not of tokens; use --positions implicit",
    "mask": "padding moves queries and keys alike; use --positions implicit",
}
"""Positions of rows that are added by distance."""
