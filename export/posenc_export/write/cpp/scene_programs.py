"""Programs of a model that sees or hears: the test that it writes its tokens behind pictures, and the example.

What goes into the tower lies in files beside the golden data: a picture has more numbers than a source should hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from posenc.ports import Array, Feeds, axes_of, sizes_of
from posenc_export.bundle.manifest import Generation, Manifest
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.names import braced, qualified_type, quoted
from posenc_export.write.cpp.scene_class import Scene
from posenc_export.write.cpp.uses import Uses

OF_GRAPHS = {
    "class_": "Graphs",
    "graph": "std::filesystem::path(words[1]).parent_path()",
    "makes": "text",
    "fields": "  Row axes;     // sizes of the tower's axes; none without pictures\n  std::string files;\n",
    "start": "    if (count > 3) golden = words[3];\n",
    "headers": "#include <filesystem>\n#include <fstream>\n",
}
"""What the program is filled in with that tries a model of several graphs."""


@dataclass(frozen=True)
class Seen:
    """What the tower of a model is given in the test of its class.

    Args:
        uses: How the class of the tower uses the memory of a call.
        feeds: What goes into the tower, by the number of the generation; a generation without pictures has nothing, and
            one whose pictures are too large is not here.
    """

    uses: Uses = field(default_factory=Uses)
    feeds: Mapping[int, Feeds] = field(default_factory=dict)


def golden_pictures(seen: Seen) -> dict[str, Array]:
    """Return the arrays that lie beside the golden data, by their keys."""
    return {f"{_files(number)}/{name}": array for number, feeds in seen.feeds.items() for name, array in feeds.items()}


def scene_programs(manifest: Manifest, name: str, scene: Scene, seen: Seen) -> dict[str, str]:
    """Return the programs of a model that sees or hears, by their files.

    Args:
        manifest: That of the decoder.
        name: The name of its class's namespace.
        scene: The other graphs.
        seen: What the tower is given.
    """
    tried = {number: one for number, one in enumerate(manifest.generations) if number in seen.feeds}
    if not tried:
        return {}
    inputs = scene.tower.bundle.manifest.inputs
    fed = scene.uses.fed(inputs)
    spans = [f"posenc::elements<const {qualified_type(port)}>(input_{i})" for i, port in enumerate(fed)]
    begin = filled(
        "generation_pictures.cpp",
        BUNDLE_TEMPLATES,
        name=name,
        verb=scene.verb,
        picture=scene.places.sense.picture,
        inputs="\n".join(f"  const auto input_{i} = input_of(one, {quoted(port.name)});" for i, port in enumerate(fed)),
        axes=braced(*(f"one.axes[{i}]" for i in range(len(axes_of(inputs))))),
        arguments=", ".join(spans),
    )
    texts = ",\n".join(f"      {_generation(one, number, scene, seen)}" for number, one in tried.items())
    fields = {"name": name, "generations": texts, "begin": begin, "include": ""}
    return {"test/generation.cpp": filled("generation.cpp", BUNDLE_TEMPLATES, **fields, **OF_GRAPHS)}


def _files(number: int) -> str:
    """Return how the files of a generation begin."""
    return f"generation{number}"


def _generation(one: Generation, number: int, scene: Scene, seen: Seen) -> str:
    """Return prompts, tokens behind them, and the sizes of the axes of their pictures."""
    inputs, feeds = scene.tower.bundle.manifest.inputs, seen.feeds[number]
    sizes = sizes_of(inputs, feeds) if feeds else {}
    axes = [sizes[axis.name] for axis in axes_of(inputs)] if sizes else []
    rows = (f"Rows{braced(*(f'Row{braced(*row)}' for row in rows))}" for rows in (one.prompts, one.tokens))
    return braced(*rows, "Row{}", f"Row{braced(*axes)}", quoted(_files(number)))
