"""Graphs that others made: which encodings of positions an ONNX file holds, how right they are, and where they end.

* `graph` reads a file without loading its weights. `interpret` goes through its nodes: constants stay closed until
  their numbers are asked for, values that depend on positions alone are computed by `kernels`, and data carry their
  shape.
* Where a position value meets data, `recognise` names its numbers, by the formulas of `posenc.formulas`.
* What is measured (errors by position, ends, half precision) and `comparing` (with a config, with another file) become
  findings in `judging`, and `report` says them.
* `extend` writes such a file with more positions, and proves it.

A new operator is a function in `kernels`, a new finding an entry in `findings` and the place that finds it. A new
encoding needs nothing here: its formula does it.
"""
