"""What the example of a model that sees does with a picture: the numbers that the processor of transformers gives."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from helpers.cpp_tools import STRICT, compiled, compiler
from helpers.embedded import run
from posenc.ports import Array, Axis, Port, fixed
from posenc_export.write.cpp import FOLDER
from posenc_export.write.cpp.processors import processor_numbers

SIDE = 24
CLIP: Mapping[str, Any] = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
SIGLIP: Mapping[str, Any] = {"size": {"height": SIDE, "width": SIDE}}
PROCESSORS: Mapping[str, Any] = {
    "CLIP": CLIPImageProcessorPil(**CLIP),
    "SigLIP": SiglipImageProcessorPil(**SIGLIP),
    "bilinear": SiglipImageProcessorPil(**SIGLIP, resample=2),
    "a crop": CLIPImageProcessorPil(size={"shortest_edge": 40}, crop_size=CLIP["crop_size"]),
}
"""Processors that give each picture one size."""
SIZES = ((37, 53), (53, 37), (40, 16), (24, 24), (9, 11), (500, 301), (301, 500), (24, 60))
"""Heights and widths: with each order of the two steps, and with one step alone."""
PROGRAM = """
#include <iostream>

#include "pictures.hpp"

int main(int count, char** words) {
  try {
    const pictures::Processor processor@;
    if (count > 2) {  // the array of a folder
      std::vector<posenc::Port> ports;
      posenc::add_port(ports, "pixel_values", posenc::DType::float32, {{"images", 0, 0}, {"", 2, 0}});
      const auto array = pictures::read_npy(words[2], ports[0]);
      std::cout << posenc::describe(array.shape) << ' ' << array.data.size();
      return 0;
    }
    const auto numbers = pictures::processed(pictures::read_ppm(words[1]), processor);
    std::cout.write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(4 * numbers.size()));
  } catch (const std::exception& error) {
    std::cerr << error.what();
    return 1;
  }
}
"""


def pixels(*, side: int = SIDE, name: str = "pixel_values", dtype: str = "float32") -> tuple[Port, ...]:
    return (Port(name, (Axis("images", "batch"), fixed(3), fixed(side), fixed(side)), dtype),)


def built(processor: Any, folder: Path) -> Path:
    """Return a program with the numbers of a processor, as the bundle that has its config gets them."""
    processor.save_pretrained(folder)
    numbers = processor_numbers(folder, pixels())
    assert numbers is not None
    (folder / "main.cpp").write_text(PROGRAM.replace("@", numbers))
    includes = [f"-I{FOLDER / name}" for name in ("scene", "session/include")]
    sources = [folder / "main.cpp", FOLDER / "session" / "tensor.cpp"]
    flags = [flag for flag in STRICT if flag not in ("-Wold-style-cast", "-Wpedantic", "-Wsign-conversion")]
    done = compiled([compiler("gcc"), *flags, "-O1", *includes, *sources, "-o", folder / "main"])
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "main"


def saved(place: Path, size: tuple[int, int]) -> Array:
    """Write a picture at random into a PPM file; return it."""
    picture = np.random.default_rng(sum(size)).integers(0, 256, (*size, 3)).astype(np.uint8)
    Image.fromarray(picture).save(place)
    return picture


@pytest.mark.exhaustive  # a program is built
@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_of_a_picture_are_those_of_the_processor(name: str, tmp_path: Path) -> None:
    program = built(PROCESSORS[name], tmp_path)
    for size in SIZES:
        picture = saved(tmp_path / "picture.ppm", size)
        done = subprocess.run([program, tmp_path / "picture.ppm"], capture_output=True, check=True)
        (expected,) = PROCESSORS[name](Image.fromarray(picture), return_tensors="np")["pixel_values"]
        np.testing.assert_allclose(
            np.frombuffer(done.stdout, np.float32).reshape(expected.shape),
            expected,
            atol=1e-6,
            err_msg=f"{name} {size}",
        )


@pytest.mark.exhaustive
def test_files_that_hold_no_picture_are_one_line(tmp_path: Path) -> None:
    program, picture = built(PROCESSORS["SigLIP"], tmp_path), tmp_path / "wrong.ppm"
    whole = b"P6\n# a comment\n4 3\n255\n" + bytes(36)
    for content, words in {
        b"": "is no picture: expected a PPM file, P6, of bytes",
        whole.replace(b"P6", b"P5"): "is no picture",
        whole.replace(b"255", b"65535"): "is no picture",
        whole.replace(b"4 3", b"-4 3"): "is no picture",
        whole.replace(b"4 3", b"4 x"): "is no picture",
        whole.replace(b"4 3", b"99999999999 3"): "is no picture",
        whole[:-1]: "is shorter than its own head says",
    }.items():
        picture.write_bytes(content)
        done = run(program, picture)
        assert (done.returncode, done.stderr.count("\n")) == (1, 0)
        assert words in done.stderr, content
    picture.write_bytes(whole)
    assert run_well(program, picture)


def run_well(*words: object) -> bytes:
    return subprocess.run([*map(str, words)], capture_output=True, check=True).stdout


@pytest.mark.exhaustive
def test_arrays_are_read_in_the_dtype_of_their_port_alone(tmp_path: Path) -> None:
    program, file = built(PROCESSORS["SigLIP"], tmp_path), tmp_path / "pixel_values.npy"
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(file, array)
    assert run_well(program, "-", tmp_path) == b"(3, 2) 24"
    content = file.read_bytes()
    wrong = "the array is of another dtype, or not row by row: expected pixel_values: float32[images, 2] in"
    for made, words in ((array.astype(np.float64), wrong), (np.asfortranarray(array), wrong)):
        np.save(file, made)
        assert words in run(program, "-", tmp_path).stderr
    file.write_bytes(content[:-1])
    assert "is shorter than its own head says" in run(program, "-", tmp_path).stderr
    file.unlink()
    assert (
        "there is no array of version 1: expected pixel_values: float32[images, 2] in"
        in run(program, "-", tmp_path).stderr
    )


def test_a_processor_that_does_more_is_left_to_itself(tmp_path: Path) -> None:
    """Tiles, patches, padding, another size than the tower takes, towers of several inputs: then arrays are read."""

    def numbers(said: Mapping[str, Any], inputs: tuple[Port, ...] = pixels()) -> str | None:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
        return processor_numbers(tmp_path, inputs)

    assert processor_numbers(tmp_path, pixels()) is None
    plain = PROCESSORS["SigLIP"].to_dict()
    assert numbers(plain) is not None
    assert numbers({**plain, "do_pan_and_scan": None}) is not None
    more = ("do_pad", "do_pan_and_scan", "crop_to_patches", "do_image_splitting")
    assert [numbers({**plain, key: True}) for key in more] == [None] * len(more)
    without = ("do_resize", "do_rescale", "do_normalize", "size", "resample", "image_mean", "rescale_factor")
    assert [numbers({k: v for k, v in plain.items() if k != key}) for key in without] == [None] * len(without)
    assert numbers({**plain, "resample": 1}) is None
    assert numbers({**plain, "image_mean": [0.5]}) is None
    assert numbers({**plain, "size": {"longest_edge": SIDE}}) is None
    assert numbers(plain, pixels(side=16)) is None
    assert numbers(plain, pixels(dtype="float16")) is None
    assert numbers(plain, (*pixels(), Port("image_sizes", (Axis("images", "batch"), fixed(2)), "int64"))) is None
    assert numbers(Idefics3ImageProcessorPil().to_dict()) is None
    assert numbers(["a list"]) is None  # type: ignore[arg-type]


def test_numbers_lie_below_a_key_in_the_config_of_a_whole_processor(tmp_path: Path) -> None:
    said = {"image_processor": PROCESSORS["CLIP"].to_dict(), "processor_class": "LlavaProcessor"}
    (tmp_path / "processor_config.json").write_text(json.dumps(said))
    alone = tmp_path / "alone"
    PROCESSORS["CLIP"].save_pretrained(alone)
    assert processor_numbers(tmp_path, pixels()) == processor_numbers(alone, pixels()) is not None
