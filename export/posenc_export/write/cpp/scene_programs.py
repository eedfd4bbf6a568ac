"""Programs of a model that sees or hears: the test that it writes its tokens behind pictures, and the example.

What goes into the tower lies in files beside the golden data: a picture has more numbers than a source should hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from posenc.picture_places import SIGHT
from posenc.ports import Array, Feeds, Port, axes_of, sizes_of
from posenc_export.bundle.manifest import Generation, Manifest
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.names import braced, qualified_type, quoted
from posenc_export.write.cpp.processors import processor_numbers
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
class OfFiles:
    """How an example takes a picture.

    Args:
        note: What its head says of that.
        take: The body of its function.
    """

    note: str
    take: str


TAKE_ARRAYS = "  take_arrays(text, graphs, given);"
OF_ARRAYS = OfFiles(
    "The bundle names no processor that gives a {picture} one size and numbers, and does nothing else with it.",
    TAKE_ARRAYS,
)
OF_SPECTRA = OfFiles("The model's processor makes a spectrum of a {picture}.", TAKE_ARRAYS)
OF_PPM = OfFiles(
    "{what} is a PPM file (P6), from which it makes pixel_values by the numbers of the model's processor.",
    "  if (std::filesystem::is_directory(given)) return take_arrays(text, graphs, given);\n"
    "  text.see(Text::Axes{1}, pictures::processed(pictures::read_ppm(given), processor));",
)


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


def scene_programs(manifest: Manifest, name: str, scene: Scene, seen: Seen, folder: Path) -> dict[str, str]:
    """Return the programs of a model that sees or hears, by their files.

    Args:
        manifest: That of the decoder.
        name: The name of its class's namespace.
        scene: The other graphs.
        seen: What the tower is given.
        folder: The folder of the bundle, in which the numbers of its processor may lie.
    """
    texts = {"example.cpp": _example(name, scene, folder)}
    tried = {number: one for number, one in enumerate(manifest.generations) if number in seen.feeds}
    return {**texts, "test/generation.cpp": _generations(name, scene, seen, tried)} if tried else texts


def _generations(name: str, scene: Scene, seen: Seen, tried: Mapping[int, Generation]) -> str:
    """Return the text of generation.cpp."""
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
    return filled("generation.cpp", BUNDLE_TEMPLATES, **fields, **OF_GRAPHS)


def _example(name: str, scene: Scene, folder: Path) -> str:
    """Return the text of example.cpp: a picture out of a file, a prompt, and the answer."""
    inputs, picture = scene.tower.bundle.manifest.inputs, scene.places.sense.picture
    fed = scene.uses.fed(inputs)
    numbers = processor_numbers(folder, inputs) if scene.places.sense is SIGHT else None
    spans = [f"posenc::elements<const {qualified_type(port)}>(input_{i}.data)" for i, port in enumerate(fed)]
    arrays = f"a folder that has {', '.join(f'{port.name}.npy' for port in fed)}"
    of_files = OF_PPM if numbers else OF_ARRAYS if scene.places.sense is SIGHT else OF_SPECTRA
    return filled(
        "scene_example.cpp",
        BUNDLE_TEMPLATES,
        name=name,
        verb=scene.verb,
        picture=picture,
        what=picture.upper(),
        place=scene.places.token,
        note=of_files.note.format(picture=picture, what=picture.upper()),
        arrays=f"{'Or it' if numbers else picture.upper()} is {arrays}, as the model's processor makes them.",
        inputs="\n".join(
            f"  const auto input_{i} = pictures::read_npy(folder, ports[{inputs.index(port)}]);"
            for i, port in enumerate(fed)
        ),
        axes=braced(*(_axis_in(axis.name, fed) for axis in axes_of(inputs))),
        arguments=", ".join(spans),
        take_file=filled("scene_example_ppm.cpp", BUNDLE_TEMPLATES, processor=numbers) if numbers else "",
        take=of_files.take,
    )


def _axis_in(name: str, fed: Sequence[Port]) -> str:
    """Return the size of an axis in the arrays of an example."""
    places = ((i, at) for i, port in enumerate(fed) for at, axis in port.dynamic.items() if axis.name == name)
    return "input_{}.shape[{}]".format(*next(places))


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
