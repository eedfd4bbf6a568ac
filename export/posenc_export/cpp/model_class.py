"""`--cpp`: the folder that a C++ program takes from a bundle: a class made for its graph, an example, a replay."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from posenc.scheme import Port, Tolerance
from posenc_export.arrays import Array
from posenc_export.bundle.folder import GOLDEN, Bundle, Manifest, TrialSpec
from posenc_export.cpp import FOLDER
from posenc_export.errors import BadInput
from posenc_export.validation.plan import Case, axes_of, is_length, long_axis
from posenc_export.validation.run import device_parity

NAME = "cpp"
BACKENDS = ("onnx", "torchscript")
"""Formats that the class can run."""
TYPES = {
    "float32": "float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float64": "double",
    "int64": "std::int64_t",
    "int32": "std::int32_t",
    "bool": "bool",
}
_KEYWORDS = """
    alignas alignof and and_eq asm atomic_cancel atomic_commit auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
    goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public reflexpr register reinterpret_cast requires return short signed sizeof static static_assert static_cast
    struct switch synchronized template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq
"""
_OURS = "Axes Memory Model View axes i inputs_ linux memory outputs_ posenc session_ std unix view"
TAKEN = frozenset((*_KEYWORDS.split(), *_OURS.split()))
"""Names that C++, compilers or the class itself use."""


def check_embeddable(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
    """Raise BadInput where the class could not tell how large an output will be, or two names would be one."""
    known = axes_of(inputs)
    for port in outputs:
        lost = [axis for axis in port.dynamic.values() if axis not in known]
        if lost:
            raise BadInput(f"--cpp needs outputs as long as inputs are: {port} has {lost[0]!r}, which no input has")
    for names in ([p.name for p in (*inputs, *outputs)], known):
        written = [_name(name) for name in names]
        twice = next((name for name in written if written.count(name) > 1), None)
        if twice is not None:
            raise BadInput(f"--cpp cannot tell two inputs, outputs or axes apart that it calls {twice!r}: rename one")


def write_cpp(bundle: Bundle) -> None:
    """Write the folder `cpp` into a bundle, from its manifest and its golden data."""
    folder, manifest = bundle.folder / NAME, bundle.manifest
    check_embeddable(manifest.inputs, manifest.outputs)
    shutil.copytree(FOLDER / "bundle", folder)
    shutil.copytree(FOLDER / "session", folder / "session")
    (folder / "posenc_model.hpp").write_text(model_header(manifest), encoding="utf-8")
    (folder / "example.cpp").write_text(example(manifest), encoding="utf-8")
    with np.load(bundle.folder / GOLDEN, allow_pickle=False) as golden:
        arrays = {key: golden[key] for key in golden.files if not key.endswith(".truth")}
    (folder / "golden.cpp").write_text(golden_source(manifest, arrays), encoding="utf-8")
    _write_arrays(folder / "golden", arrays)


def _write_arrays(folder: Path, arrays: dict[str, Array]) -> None:
    """Write each array's bytes, row by row: CASE.PORT.bin, and CASE.PORT.rows.bin where only rows are kept."""
    folder.mkdir()
    for key, array in arrays.items():
        (folder / f"{key.replace('/', '.')}.bin").write_bytes(np.ascontiguousarray(array).tobytes())


# ---- the class -------------------------------------------------------------------------------------------------------


def model_header(manifest: Manifest) -> str:
    """Return posenc_model.hpp: the class Model, whose `run` names, types and checks every tensor of the graph."""
    axes = axes_of(manifest.inputs)
    ports = [*manifest.inputs, *manifest.outputs]
    fields = "".join(f"    std::int64_t {_name(axis)};\n" for axis in axes)
    sizes = "\n".join(_size_function(port) for port in ports)
    inputs, outputs = (_views(p) for p in (manifest.inputs, manifest.outputs))
    counts = len(manifest.inputs), len(manifest.outputs)
    return f"""\
// Made by posenc-export for
// {_title(manifest)}
//
// One object holds the graph; `run` may be called from several threads at once. Everything throws posenc::Error, whose
// text is one line. Build it with CMakeLists.txt beside this; example.cpp shows how to use it.
#pragma once

#include <array>

#include "session.hpp"

namespace posenc {{

/// The graph of this bundle.
class Model {{
 public:
  /// How long the axes are in one call.
  struct Axes {{
{fields}  }};

  /// Load the graph's file. Device::cuda throws where CUDA cannot be used.
  explicit Model(const std::filesystem::path& file, Device device = Device::cpu)
      : session_(file,
{_ports(manifest.inputs)},
{_ports(manifest.outputs)},
                 device) {{}}

  // How many elements each tensor has in a call.
{sizes}

  /// Run the graph, from and into contiguous memory of the caller's, row by row:
{_documented(manifest)}
  /// With Memory::device, spans are of the graph's own device: on CUDA, of memory of the GPU, which nothing may be
  /// writing to any more. Returns when the outputs are there.
  void run({_arguments(manifest)}) const {{
    const std::array<posenc::View, {counts[0]}> inputs_{{{inputs}}};
    const std::array<posenc::View, {counts[1]}> outputs_{{{outputs}}};
    session_.run(inputs_, outputs_, memory);
  }}

 private:
  Session session_;
}};

}}  // namespace posenc
"""


def _name(name: str) -> str:
    return f"{name}_" if name in TAKEN else name


def _title(manifest: Manifest) -> str:
    told = ", ".join(f"{k}={json.dumps(v)}" for k, v in manifest.params.items() if v is not None)
    text = f"{manifest.scheme} ({told}), {manifest.mode}, up to {manifest.max_len} positions tried."
    return "\n// ".join(textwrap.wrap(text, 116, break_on_hyphens=False))


def _size(axis: str | int, of: str = "axes.") -> str:
    return str(axis) if isinstance(axis, int) else of + _name(axis)


def _size_function(port: Port) -> str:
    shape = ", ".join(_size(axis) for axis in port.axes)
    unused = "" if port.dynamic else "[[maybe_unused]] "
    return (
        f"  static std::size_t {port.name}_size({unused}const Axes& axes) {{\n"
        f"    return count(std::vector<std::int64_t>{{{shape}}});\n  }}"
    )


def _ports(ports: tuple[Port, ...]) -> str:
    lines = []
    for port in ports:
        axes = ", ".join(f'{{"{a}"}}' if isinstance(a, str) else f'{{"", {a}}}' for a in port.axes)
        lines.append(f'Port{{"{port.name}", DType::{_dtype(port)}, {{{axes}}}}}')
    return "                 {" + ",\n                  ".join(lines) + "}"


def _dtype(port: Port) -> str:
    return "boolean" if port.dtype == "bool" else port.dtype


def _views(ports: tuple[Port, ...]) -> str:
    found = []
    for port in ports:
        shape = ", ".join(_size(axis) for axis in port.axes)
        found.append(f'\n        posenc::view("{port.name}", {_name(port.name)}, {{{shape}}})')
    return ",".join(found)


def _arguments(manifest: Manifest) -> str:
    unused = "" if axes_of(manifest.inputs) else "[[maybe_unused]] "
    told = [f"{unused}const Axes& axes"]
    told += [f"std::span<const {TYPES[p.dtype]}> {_name(p.name)}" for p in manifest.inputs]
    told += [f"std::span<{TYPES[p.dtype]}> {_name(p.name)}" for p in manifest.outputs]
    return ",\n           ".join([*told, "Memory memory = Memory::host"])


def _documented(manifest: Manifest) -> str:
    lines = [f"in   {port}" + (f" < {port.below}" if port.below else "") for port in manifest.inputs]
    lines += [f"out  {port}" for port in manifest.outputs]
    return "\n".join(f"  ///   {line}" for line in lines)


# ---- the example -----------------------------------------------------------------------------------------------------


def example(manifest: Manifest) -> str:
    """Return example.cpp: load the graph, make inputs, run, print the first numbers of each output."""
    axes = ", ".join(f".{_name(a)} = {_example_size(a)}" for a in axes_of(manifest.inputs))
    made = "\n".join(_example_vector(p) for p in (*manifest.inputs, *manifest.outputs))
    given = ", ".join(_name(p.name) + "_" for p in (*manifest.inputs, *manifest.outputs))
    printed = "\n".join(f'    print<{_type(p)}>("{p.name}", {_name(p.name)}_);' for p in manifest.outputs)
    return f"""\
// Loads the graph, runs it once and prints the first numbers of what it gives: example MODEL [cpu|cuda]
#include <iostream>

#include "compare.hpp"
#include "posenc_model.hpp"

namespace {{

template <class T>
void print(const char* name, std::span<const T> values) {{
  std::cout << name << ':';
  for (std::size_t i = 0; i < values.size() && i < 4; ++i) std::cout << ' ' << posenc::value_of(values[i]);
  std::cout << " ... (" << values.size() << ")\\n";
}}

}}  // namespace

int main(int count, char** words) {{
  try {{
    if (count < 2) throw posenc::Error("expected the graph's file");
    const bool cuda = count > 2 && std::string(words[2]) == "cuda";
    const posenc::Model model(words[1], cuda ? posenc::Device::cuda : posenc::Device::cpu);
    const posenc::Model::Axes axes{{{axes}}};
{made}
    model.run(axes, {given});
{printed}
    return 0;
  }} catch (const std::exception& error) {{
    std::cerr << "error: " << error.what() << '\\n';
    return 1;
  }}
}}
"""


def _example_size(axis: str | int) -> int:
    if isinstance(axis, int):
        return axis
    return 3 if is_length(axis) else 1 if axis == "batch" else 2


def _example_vector(port: Port) -> str:
    name, size = f"{_name(port.name)}_", f"posenc::Model::{port.name}_size(axes)"
    if port.dtype == "bool":  # a vector of bool is none of bools
        made = f"const auto {name} = posenc::elements<bool>({name}bytes);"
        return f"    std::vector<std::byte> {name}bytes({size});\n    {made}"
    ones = {"float32": "1", "float64": "1", "float16": "posenc::Half{0x3c00}", "bfloat16": "posenc::BFloat16{0x3f80}"}
    filled = f", {ones[port.dtype]}" if port.dtype in ones else ""
    made = f"    std::vector<{_type(port)}> {name}({size}{filled});"
    if port.name != "positions" or port.dtype != "int64":
        return made
    count = f"static_cast<std::int64_t>(i % {_example_size(port.axes[-1])})"
    return f"{made}\n    for (std::size_t i = 0; i < {name}.size(); ++i) {name}[i] = {count};"


def _type(port: Port) -> str:
    """Return the C++ type of a port's elements, as one writes it outside the namespace."""
    told = TYPES[port.dtype]
    return told if told[0].islower() else f"posenc::{told}"


# ---- the golden cases ------------------------------------------------------------------------------------------------


def golden_source(manifest: Manifest, arrays: dict[str, Array]) -> str:
    """Return golden.cpp: every case with its tensors and tolerances, and how the class is called with them."""
    cases = "\n".join(_case(manifest, spec, arrays) for spec in manifest.trials)
    unused = "" if manifest.inputs else "[[maybe_unused]] "
    given = [f"elements<const {TYPES[p.dtype]}>(inputs[{i}].data)" for i, p in enumerate(manifest.inputs)]
    given += [f"elements<{TYPES[p.dtype]}>(outputs[{i}].data)" for i, p in enumerate(manifest.outputs)]
    return f"""\
// Made by posenc-export. What each case's tensors hold lies in the folder golden.
#include "cases.hpp"

namespace posenc {{

std::vector<Case> cases() {{
  return {{
{cases}
  }};
}}

void call(const Model& model, const Model::Axes& axes, {unused}std::vector<Array>& inputs,
          std::vector<Array>& outputs, Memory memory) {{
  model.run(axes, {", ".join(given)}, memory);
}}

}}  // namespace posenc
"""


def _case(manifest: Manifest, spec: TrialSpec, arrays: dict[str, Array]) -> str:
    case = spec.case
    axes = ", ".join(str(case.sizes[axis]) for axis in axes_of(manifest.inputs))
    inputs, outputs = (", ".join(_tensors(case, ports, arrays)) for ports in (manifest.inputs, manifest.outputs))
    by_format = {a.format: a.parity for a in manifest.artifacts}
    loosened = [replace(spec, parity=spec.parity.loosened(by_format.get(name))) for name in BACKENDS]
    tolerances = [_tolerance(device_parity(one, device)) for one in loosened for device in ("cpu", "cuda")]
    refused = str(case.refused).lower()
    allowed = "{{{{{}, {}}}, {{{}, {}}}}}".format(*tolerances)
    return (
        f'      {{"{case.name}", {{{axes}}}, {refused},\n'
        f"       {{{inputs}}},\n       {{{outputs}}},\n       {allowed}}},"
    )


def _tensors(case: Case, ports: tuple[Port, ...], arrays: dict[str, Array]) -> Iterator[str]:
    for port in ports:
        shape = case.shape(port)
        axis = long_axis(port, shape) if f"{case.name}/{port.name}.rows" in arrays else -1
        yield f'{{"{port.name}", DType::{_dtype(port)}, {{{", ".join(map(str, shape))}}}, {axis}}}'


def _tolerance(allowed: Tolerance) -> str:
    numbers = ", ".join(repr(float(n)) for n in (allowed.atol, allowed.rtol, allowed.ulps, allowed.vector))
    return f"{{{numbers}, {str(allowed.bits).lower()}}}"
