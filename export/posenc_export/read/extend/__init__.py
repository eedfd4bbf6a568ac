"""ONNX files of others made longer, or exact: their tables written anew from closed forms in float64, and proved.

`reading` finds the encodings and where positions end; what is written here is a new file, and the one that was read
stays as it is.
"""
