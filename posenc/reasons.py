"""Reasons that several schemes give in their `Unsupported`. They lie here since no torch is loaded for this file."""

BIAS = {"trig": "a bias has no sines; leave --method trig out"}
"""Why a bias has no such method."""
GRID = {
    "offset": "a grid has no first position to shift; use --positions implicit",
    "explicit": "places are those of the grid; use --positions implicit",
}
"""Why a grid takes no such positions."""
WINDOW = {
    "offset": "a window has no first position to shift; use --positions implicit",
    "explicit": "places are those of the window; use --positions implicit",
    "mask": "a window has no padding to count from; use --positions implicit",
}
"""Why a window of attention takes no such positions."""
DISTANCES = {
    "offset": "a distance does not change where both ends move; use --positions implicit",
    "explicit": "rows are of distances in a row, and not of tokens; use --positions implicit",
    "mask": "padding moves queries and keys alike; use --positions implicit",
}
"""Why distances are given in no other way."""
