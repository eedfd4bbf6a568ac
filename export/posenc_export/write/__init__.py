"""What is asked for becomes files: targets, the formats of graphs, and C++ that runs them.

* `targets` make a module with named ports of a scheme, a model's config, or a user's module; `inputs` reads texts of
  ports.
* `formats` capture a program and write it, a file a format; `formats.onnx` is what is special about ONNX.
* `cpp` writes the C++ class of a bundle, the header runtime and the runner.

Nothing here judges: `proof` does. A new format is a file in `formats`, and a runtime in `proof/runtimes` that runs it.
"""
