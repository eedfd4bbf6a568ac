"""`--cpp`: the class of a bundle, made of its manifest and of what its graph does with the memory of a call."""

from __future__ import annotations

from functools import partial

from posenc_export.bundle.folder import Bundle
from posenc_export.cpp.embed import write_cpp
from posenc_export.cpp.uses import Uses, in_place
from posenc_export.formats.onnx import read_onnx
from posenc_export.formats.onnx.memory import may_replace, unread


def embedded(bundle: Bundle, name: str = "") -> Bundle:
    """Write the folder `cpp` into a bundle, as `write_cpp` does; return it with its files listed."""
    return write_cpp(bundle, uses_of(bundle), name)


def uses_of(bundle: Bundle) -> Uses:
    """Return how a class may use the memory of a call.

    ONNX Runtime works on the memory that it is given: there the graph has to say it. libtorch gets inputs of zeros for
    those whose values the module does not read, and copies its outputs to where they belong once all are there.
    """
    manifest, artifact = bundle.manifest, bundle.manifest.artifact("onnx")
    alone = frozenset(manifest.unread)
    if artifact is None:
        return Uses(alone, in_place(manifest.inputs, manifest.outputs, lambda *_: True))
    graph = read_onnx(bundle.path(artifact))
    return Uses(alone & unread(graph), in_place(manifest.inputs, manifest.outputs, partial(may_replace, graph)))
