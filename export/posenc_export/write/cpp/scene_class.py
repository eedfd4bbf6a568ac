"""The classes of a model that sees or hears: `Text`, a decoder that takes pictures, and `Graphs`, which loads them all.

Each graph has a class of its own in the folder of its part; these two stand behind the class of the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

from posenc.picture_places import SIGHT, PicturePlaces
from posenc.ports import Grids, Port
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.errors import BadInput
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.arguments import all_sizes, documented, input_parameters, views
from posenc_export.write.cpp.decoders import decoder_ports, part_name
from posenc_export.write.cpp.names import braced, identifier, quoted
from posenc_export.write.cpp.uses import Uses
from posenc_models.whole.tasks import EMBEDDINGS

POSITIONS = "position_ids"


@dataclass(frozen=True)
class Part:
    """A graph of a model that sees or hears, beside its decoder.

    Args:
        member: What `Graphs` calls it.
        name: The name of its class's namespace.
        bundle: Its bundle.
    """

    member: str
    name: str
    bundle: Bundle

    @property
    def file(self) -> str:
        """The file of its graph."""
        return graph_file(self.bundle.manifest)


@dataclass(frozen=True)
class Scene:
    """The graphs of a model that sees or hears, beside its decoder, and how their classes use memory.

    Args:
        places: Which tokens are places of pictures.
        parts: The table of words and the tower; then what counts positions, if anything does.
        uses: How the class of the tower uses the memory of a call.
    """

    places: PicturePlaces
    parts: tuple[Part, ...]
    uses: Uses

    @property
    def tower(self) -> Part:
        """What makes embeddings of pictures."""
        return self.parts[1]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes' namespaces."""
        return tuple(part.name for part in self.parts)

    @property
    def verb(self) -> str:
        """What a text does with pictures: see, or hear."""
        return "see" if self.places.sense is SIGHT else "hear"


def scene_of(bundle: Bundle, name: str, uses: Uses) -> Scene | None:
    """Return the other graphs of a model that sees or hears; None for any other.

    Args:
        bundle: The bundle of the model.
        name: The name of its class's namespace.
        uses: How the class of the tower uses the memory of a call.

    Raises BadInput, in one line, where one of the graphs is missing, or gives embeddings in another dtype.
    """
    places = bundle.manifest.places
    if places is None:
        return None
    parts = []
    for member, output, is_needed in (
        ("words", EMBEDDINGS, True),
        ("tower", places.sense.features, True),
        ("positions", POSITIONS, False),
    ):
        part = bundle.part_with(output)
        if part is not None:
            parts.append(Part(member, part_name(name, part.folder.name), part))
        elif is_needed:
            raise BadInput(f"{bundle.folder} has no graph that gives {output}: --cpp needs all graphs of a model")
    dtypes = {port.dtype for part in parts[:2] for port in part.bundle.manifest.outputs}
    if len(dtypes) > 1:
        raise BadInput(f"--cpp needs words and pictures of one dtype, got {', '.join(sorted(dtypes))}")
    return Scene(places, tuple(parts), uses)


def graph_file(manifest: Manifest) -> str:
    """Return the file of a graph that a class loads: that for ONNX Runtime, or the first one for libtorch."""
    return (manifest.artifact("onnx") or manifest.artifacts[0]).file


def scene_classes(manifest: Manifest, uses: Uses, scene: Scene) -> str:
    """Return the classes `Text` and `Graphs`.

    Args:
        manifest: That of the decoder.
        uses: How the decoder's class uses the memory of a call.
        scene: The other graphs.
    """
    inputs, others = scene.tower.bundle.manifest.inputs, scene.parts
    names = [identifier(port.name) for port in scene.uses.fed(inputs)]
    load = "      if (status.ok()) status = loaded_.{}.load(folder / {}, options);"
    return filled(
        "scene.hpp",
        BUNDLE_TEMPLATES,
        verb=scene.verb,
        picture=scene.places.sense.picture,
        place=scene.places.token,
        tower=scene.tower.name,
        documented=documented(inputs, scene.uses),
        parameters=",\n      ".join(input_parameters(inputs, scene.uses)),
        arguments=", ".join(["axes", *names]),
        size_count=sum(len(port.axes) for port in inputs),
        all_sizes=all_sizes(inputs),
        input_count=len(inputs),
        input_views=views(inputs, 0, scene.uses),
        decoder_file=quoted(graph_file(manifest)),
        loads="\n".join(load.format(part.member, quoted(part.file)) for part in others),
        members="\n".join(f"  {part.name}::Model {part.member};" for part in others),
        ports=decoder_ports(manifest.inputs, manifest.outputs, uses.caches),
        graphs=_graphs(scene),
    )


def _graphs(scene: Scene) -> str:
    """Return the fields of posenc::SceneGraphs."""
    places, has_positions = scene.places, len(scene.parts) > len(("words", "tower"))
    sessions = ["&words.session()", "&tower.session()", "&positions.session()" if has_positions else "nullptr"]
    of_texts = [places.token, str(places.types).lower(), quoted(places.sense.picture)]
    return braced(*sessions, *of_texts, *_grids(scene.tower.bundle.manifest.inputs))


def _grids(inputs: tuple[Port, ...]) -> list[int]:
    """Return the numbers of a tower's inputs of grids and of patches, and what rows and columns are multiples of."""
    for number, port in enumerate(inputs):
        if isinstance(port.carries, Grids):
            patches = [i for i, other in enumerate(inputs) if other.axes and other.axes[0].name == port.carries.of]
            return [number, patches[0], port.carries.multiple] if patches else []
    return []
