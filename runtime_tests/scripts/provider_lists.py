"""The operators that execution providers take, from their own public lists and sources, as JSON for `posenc compat`.

python runtime_tests/scripts/provider_lists.py ONNXRUNTIME[@COMMIT] ONNX_TENSORRT[@COMMIT]

Both are folders of git, at HEAD or at a commit: clones of github.com/microsoft/onnxruntime and of
github.com/onnx/onnx-tensorrt. Kernels that are registered by macros of C++ are found by the C preprocessor (`cpp`), to
which those macros are given anew. Only facts are taken: operators, opsets and dtypes. What a list does not say of
dtypes stays null, and `posenc compat` then says "not known".
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "export" / "posenc_export" / "write" / "formats" / "onnx" / "providers"
DTYPES = {
    "float": "float32",
    "double": "float64",
    "MLFloat16": "float16",
    "BFloat16": "bfloat16",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "bool",
    "string": "string",
}
"""Dtypes as C++ names them, and as this project does."""
TENSORRT = {
    "FP32": "float32",
    "FP16": "float16",
    "BF16": "bfloat16",
    "DOUBLE": "float64",
    "INT64": "int64",
    "INF64": "int64",  # the page's own misprint
    "INT32": "int32",
    "INT8": "int8",
    "UINT8": "uint8",
    "BOOL": "bool",
    "FP8": "float8",
    "INT4": "int4",
}
DOMAINS = {
    "kOnnxDomain": "ai.onnx",
    "kMSDomain": "com.microsoft",
    # kernels for images with channels last: their nodes are ai.onnx's before the layout is changed
    "kMSInternalNHWCDomain": "ai.onnx",
}
Dtypes = Mapping[str, tuple[str, ...]] | None
"""Dtypes by the name of a type or an input in the operator's definition; None where the list does not say."""


@dataclass(frozen=True)
class Kernel:
    """An operator that a provider takes, from an opset to an opset; None where the last is open."""

    domain: str
    name: str
    since: int
    until: int | None
    dtypes: Dtypes


@dataclass(frozen=True)
class Provider:
    """What a list says, and how it is read: see `matching` in formats/onnx/providers."""

    title: str
    file: str
    matching: str
    sources: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    opset: int | None = None
    every: tuple[str, ...] | None = None
    signatures: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkout:
    """A commit of a repository in a folder of git."""

    folder: Path
    commit: str
    name: str

    def git(self, *words: str) -> str:
        """Return what git prints."""
        command = ["git", "-C", str(self.folder), *words]
        return subprocess.run(command, check=True, capture_output=True, encoding="utf-8", errors="replace").stdout

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return self.git("show", f"{self.commit}:{path}")

    def files(self, folder: str, *ends: str) -> list[str]:
        """Return the paths of files below a folder."""
        names = self.git("ls-tree", "-r", "--name-only", self.commit, folder).splitlines()
        return [name for name in names if name.endswith(ends)]

    def facts(self) -> dict[str, str]:
        """Return where it is from, and of when."""
        date = self.git("log", "-1", "--format=%cs", self.commit).strip()
        return {"repository": f"https://github.com/{self.name}", "commit": self.commit, "date": date}


def checkout(words: str, name: str) -> Checkout:
    """Return the commit that the words of the command line mean."""
    folder, _, commit = words.partition("@")
    found = subprocess.run(
        ["git", "-C", folder, "rev-parse", commit or "HEAD"], check=True, capture_output=True, encoding="utf-8"
    )
    return Checkout(Path(folder), found.stdout.strip(), name)


# ---- docs/OperatorKernels.md -----------------------------------------------------------------------------------------


def table_of_kernels(text: str, provider: str) -> Iterator[Kernel]:
    """Yield the rows of a provider in docs/OperatorKernels.md."""
    domain = name = ""
    for cells in _rows(text, provider):
        if "Operator Domain" in cells[0]:
            domain = cells[0].split("*")[-2]
            continue
        name = cells[0] or name
        since, until = _span(cells[2])
        yield Kernel(domain, name, since, until, _constraints(cells[3]))


def signatures_of(text: str, provider: str) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the types of inputs and outputs of com.microsoft's operators: no package but ONNX Runtime defines them."""
    domain, found = "", {}
    for cells in _rows(text, provider):
        if "Operator Domain" in cells[0]:
            domain = cells[0].split("*")[-2]
        elif domain == "com.microsoft" and cells[0]:
            ways = [tuple(re.findall(rf"\*{way}\* \w+:\*\*([^*]+)\*\*", cells[1])) for way in ("in", "out")]
            found[cells[0]] = (ways[0], ways[1])
    return found


def _rows(text: str, provider: str) -> Iterator[list[str]]:
    part = text.partition(f"## Operators implemented by {provider}\n")[2].partition("\n## ")[0]
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0] != "Op Name" and not cells[0].startswith("---"):
            yield cells


def _span(words: str) -> tuple[int, int | None]:
    """Return the first and the last opset of "13+", "[6, 12]" or "13"."""
    numbers = [int(number) for number in re.findall(r"\d+", words)]
    return numbers[0], None if words.endswith("+") else numbers[-1]


def _constraints(words: str) -> dict[str, tuple[str, ...]]:
    found = re.findall(r"\*\*(\w+)\*\* = (.+?)(?=<br/>|$)", words)
    return {name: _sorted(_tensor(each) for each in re.findall(r"\w+\([\w() ,]+?\)+", types)) for name, types in found}


def _tensor(words: str) -> str:
    inside = words.removeprefix("tensor(").removesuffix(")") if words.startswith("tensor(") else words
    return {"float": "float32", "double": "float64"}.get(inside, inside)


def _sorted(dtypes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(dtypes)))


# ---- kernels that macros register ------------------------------------------------------------------------------------

MACROS = """
#define ONNX_OPERATOR_KERNEL_EX(name, domain, v, ep, builder, ...) @K name @ domain @ v @ + @ . @ builder @;
#define ONNX_OPERATOR_VERSIONED_KERNEL_EX(name, domain, v, w, ep, builder, ...) \\
  @K name @ domain @ v @ w @ . @ builder @;
#define ONNX_OPERATOR_TYPED_KERNEL_EX(name, domain, v, t, ep, builder, ...) @K name @ domain @ v @ + @ t @ builder @;
#define ONNX_OPERATOR_VERSIONED_TYPED_KERNEL_EX(name, domain, v, w, t, ep, builder, ...) \\
  @K name @ domain @ v @ w @ t @ builder @;
#define ONNX_OPERATOR_TWO_TYPED_KERNEL_EX(name, domain, v, t, u, ep, builder, ...) \\
  @K name @ domain @ v @ + @ t u @ builder @;
#define ONNX_OPERATOR_VERSIONED_TWO_TYPED_KERNEL_EX(name, domain, v, w, t, u, ep, builder, ...) \\
  @K name @ domain @ v @ w @ t u @ builder @;
#define ONNX_OPERATOR_KERNEL_CLASS_NAME(ep, domain, v, name) @C name @ domain @ v @ + @ . @;
#define ONNX_OPERATOR_VERSIONED_KERNEL_CLASS_NAME(ep, domain, v, w, name) @C name @ domain @ v @ w @ . @;
#define ONNX_OPERATOR_TYPED_KERNEL_CLASS_NAME(ep, domain, v, t, name) @C name @ domain @ v @ + @ t @;
#define ONNX_OPERATOR_VERSIONED_TYPED_KERNEL_CLASS_NAME(ep, domain, v, w, t, name) @C name @ domain @ v @ w @ t @;
#define ONNX_OPERATOR_TWO_TYPED_KERNEL_CLASS_NAME(ep, domain, v, t, u, name) @C name @ domain @ v @ + @ t u @;
#define ONNX_OPERATOR_VERSIONED_TWO_TYPED_KERNEL_CLASS_NAME(ep, domain, v, w, t, u, name) \\
  @C name @ domain @ v @ w @ t u @;
"""
"""ONNX Runtime's macros (core/framework/op_kernel.h), which here say what they would register."""


@dataclass(frozen=True)
class Sources:
    """Sources of a provider after the preprocessor: each file with the macros of all headers."""

    texts: tuple[str, ...]
    int64: bool
    """Whether the option for int64 is on: what `enable_int64` guards is then there."""

    @property
    def all(self) -> str:
        """All of them."""
        return "\n".join(self.texts)


def preprocessed(ort: Checkout, folders: Iterable[str], int64: bool) -> Sources:
    """Return the sources in folders of ONNX Runtime, with its macros in their places."""
    headers = [path for folder in folders for path in ort.files(folder, ".h")]
    defined = "\n".join(_directives(ort.read(path)) for path in headers)
    files = [path for folder in folders for path in ort.files(folder, ".cc", ".h")]
    return Sources(tuple(_expanded(f"{defined}\n{MACROS}", ort.read(path)) for path in files), int64)


def _without_includes(text: str) -> str:
    return re.sub(r"^\s*#\s*(include|pragma|error).*$", "", text, flags=re.MULTILINE)


def _directives(text: str) -> str:
    """Return the macros that a header defines."""
    joined = re.findall(r"^#define (?:[^\n]*\\\n)*[^\n]*$", text, flags=re.MULTILINE)
    return "\n".join(joined)


def _expanded(macros: str, text: str) -> str:
    # what a compiler would refuse is of no interest: only what the macros become is
    done = subprocess.run(
        ["cpp", "-P", "-undef", "-nostdinc", "-w", "-x", "c++", "-"],
        input=f"{macros}\n@@START\n{_without_includes(text)}",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout.split("@@START")[-1]


def registered(sources: Sources) -> Iterator[Kernel]:
    """Yield the kernels of a provider: those that macros define and a table names, and those that functions make."""
    live = _guarded(sources.all, sources.int64)
    named = {tuple(_words(parts)) for parts in re.findall(r"@C(.*?)@;", live, flags=re.DOTALL)}
    for text in sources.texts:
        for parts in re.findall(r"@K(.*?)@;", text, flags=re.DOTALL):
            name, domain, since, until, dtype, builder = [part.strip() for part in parts.split(" @ ", 5)]
            if (name, domain, since, until, dtype) in named and domain in DOMAINS:
                last = None if until == "+" else int(until)
                yield Kernel(DOMAINS[domain], name, int(since), last, _built(builder, "", sources))
        yield from _made(text, sources)
    yield from _in_ranges(sources)


def _words(parts: str) -> list[str]:
    return [part.strip() for part in parts.split("@") if part.strip()]


def _made(text: str, sources: Sources) -> Iterator[Kernel]:
    """Yield the kernels of functions that are called with opsets, as CreateGatherKernelInfo(13, enable_int64)."""
    for match in re.finditer(r"KernelCreateInfo (Create\w+)\(([^)]*)\) \{", text):
        body = _guarded(_block(text, match.end() - 1), sources.int64)
        chain = re.search(r"KernelDefBuilder\(\)\s*\.SetName\(\"(\w+)\"\).*?\.Build\(\)", body, flags=re.DOTALL)
        if chain is None:
            continue
        for arguments in _calls(match[1], sources):
            if match[2]:
                dtypes: Dtypes = _built(chain[0], body, sources)
                numbers = [int(number) for number in re.findall(r"\b\d+\b", arguments)]
                since, until = numbers[0], numbers[1] if len(numbers) > 1 else None
            else:  # a template of the dtype, with its opset inside
                since, until = int(re.search(r"SinceVersion\((\d+)\)", chain[0])[1]), None  # type: ignore[index]
                dtypes = {"T": _sorted(DTYPES[word] for word in [arguments] if word in DTYPES)}
            yield Kernel("ai.onnx", chain[1], since, until, dtypes)


def _calls(function: str, sources: Sources) -> list[str]:
    """Return the arguments of every call of a function: of the template, or in parentheses."""
    live = _guarded(sources.all, sources.int64)
    template = re.findall(rf"Register\({function}<(\w+)>\(\)\)", live)
    return template or re.findall(rf"Register\({function}\(([^)]*)\)\)", live)


def _in_ranges(sources: Sources) -> Iterator[Kernel]:
    """Yield the kernels that are registered by name with a list of opsets: RegisterBinaryOp(...)."""
    text = sources.all
    for match in re.finditer(r"RegisterBinaryOp\(kernel_registry, \"(\w+)\", [^,]+, (\w+), \{(\{.*?\})\}(, &)?", text):
        scope = text[: match.start()]
        scope = _guarded(scope[scope.rfind("void Register") :], sources.int64)
        dtypes = _types(match[2], scope, sources)
        for since, until in re.findall(r"\{(\d+), ([\w:]+)\}", match[3]):
            names = ("T", "T1") if match[4] else ("T",)
            last = int(until) if until.isdecimal() else None
            by_name = None if dtypes is None else dict.fromkeys(names, dtypes)
            yield Kernel("ai.onnx", match[1], int(since), last, by_name)


def _built(builder: str, scope: str, sources: Sources) -> Dtypes:
    """Return the dtypes of a kernel's builder; None where one of them cannot be read."""
    found: dict[str, tuple[str, ...]] = {}
    for match in re.finditer(r"\.TypeConstraint\(", builder):
        name, _, words = _inside(builder, match.end() - 1).partition(",")
        dtypes = _types(words, scope, sources)
        if dtypes is None:
            return None
        found[name.strip().strip('"')] = dtypes
    return found


def _types(words: str, scope: str, sources: Sources, depth: int = 0) -> tuple[str, ...] | None:
    """Return the dtypes that an expression of C++ stands for: its own, and those of what it names."""
    if depth > 6:
        return None
    found = {DTYPES[word] for word in re.findall(r"\w+", re.sub(r"\w+::\w+(?=\()", "", words)) if word in DTYPES}
    for match in re.finditer(r"\b([A-Za-z_]\w*)\b", words):
        name = match[1]
        if name == "GetOpTypeConstraints":
            found |= _op_types(_inside(words, words.index("(", match.end())), sources)
            continue
        for text, within in _values(name, scope, sources):
            found |= set(_types(text, within, sources, depth + 1) or ())
    return _sorted(found) or None


def _values(name: str, scope: str, sources: Sources) -> Iterator[tuple[str, str]]:
    """Yield what a name holds, and where its own names are: a variable of the scope, a list of types, or a function."""
    assigned = re.findall(rf"(?:MLDataType>&?|auto&?) {name}\s*=\s*(.*?);", scope, flags=re.DOTALL)[-1:]
    braced = re.findall(rf"MLDataType>&? {name}\{{(.*?)\}};", scope, flags=re.DOTALL)[-1:]
    pushed = re.findall(rf"\b{name}\.push_back\((.*?)\);", scope, flags=re.DOTALL)
    yield from ((text, scope) for text in (*assigned, *braced, *pushed))
    listed = re.findall(rf"using {name}\s*=\s*TypeList<(.*?)>;", sources.all, flags=re.DOTALL)[-1:]
    yield from ((text, "") for text in listed)
    function = re.search(rf"std::vector<MLDataType>&? {name}\([^)]*\)\s*\{{", sources.all)
    if function:
        body = _guarded(_block(sources.all, function.end() - 1), sources.int64)
        yield body, body


def _op_types(arguments: str, sources: Sources) -> set[str]:
    """Return the dtypes of WebGPU's GetOpTypeConstraints(int64, bool)."""
    base = re.search(r"base_types\{(.*?)\};", sources.all, flags=re.DOTALL)
    found = {DTYPES[word] for word in re.findall(r"\w+", base[1] if base else "") if word in DTYPES}
    wanted = [{"true": True, "enable_int64": sources.int64}.get(word.strip(), False) for word in arguments.split(",")]
    return found | {name for name, there in zip(("int64", "bool"), wanted, strict=False) if there}


def _guarded(text: str, int64: bool) -> str:
    """Return a text without what is only there with the option for int64."""
    if int64:
        return text
    while match := re.search(r"if \(enable_int64\) \{", text):
        text = text[: match.start()] + text[match.end() - 1 + len(_block(text, match.end() - 1)) :]
    return text


def _block(text: str, start: int) -> str:
    """Return the text from an opening brace up to the one that closes it."""
    return _balanced(text, start, "{", "}")


def _inside(text: str, start: int) -> str:
    """Return what stands between the parenthesis at a place and the one that closes it."""
    return _balanced(text, start, "(", ")")[1:-1]


def _balanced(text: str, start: int, opening: str, closing: str) -> str:
    depth = 0
    for place in range(start, len(text)):
        depth += {opening: 1, closing: -1}.get(text[place], 0)
        if not depth:
            return text[start : place + 1]
    return text[start:]


# ---- providers that have a builder for each operator -----------------------------------------------------------------


def builders(ort: Checkout, folder: str, factory: str, check: str, default: tuple[str, ...]) -> Iterator[Kernel]:
    """Yield the operators that a factory has builders of.

    Args:
        ort: ONNX Runtime.
        folder: where the builders are.
        factory: the file that names them.
        check: the function of a builder that looks at dtypes; where a builder has its own, its dtypes are not known,
            unless it asks the one that all others share.
        default: dtypes of the first input that the shared check takes; () where there is none.
    """
    texts = [ort.read(path) for path in ort.files(folder, "op_builder.cc")]
    base = ort.read(next(path for path in ort.files(folder, "base_op_builder.h")))
    last = re.search(r"GetMaxSupportedOpSet\([^)]*\) const \{ return (\d+); \}", base)
    for builder, name in re.findall(r"(Create\w+OpBuilder)\(\"(\w+)\",", ort.read(factory)):
        text = next((text for text in texts if re.search(rf"void {builder}\(", text)), "")
        own = re.search(rf"bool \w+::{check}\(.*?\{{", text, flags=re.DOTALL) if default else None
        body = _block(text, own.end() - 1) if own else ""
        asks = re.search(r"BaseOpBuilder::HasSupported|!IsInputDtypeSupport\(node, 0,", body)
        known = bool(default and text and (own is None or asks) and "Linear" not in name)
        first = re.search(r"GetMinSupportedOpSet\([^)]*\) const override \{\s*(?://[^\n]*\s*)*return (\d+);", text)
        dtypes = {"#0": default} if known else None
        span = (int(first[1]) if first else 1, int(last[1]) if last else None)
        yield Kernel(_domain_of(name), name, *span, dtypes)


def _domain_of(name: str) -> str:
    import onnx

    return "ai.onnx" if onnx.defs.has(name) else "com.microsoft"


def with_format(ort: Checkout, folder: str, kernels: Iterable[Kernel], ml_program: bool) -> Iterator[Kernel]:
    """Yield the operators of CoreML that one of its two formats of models takes."""
    page = ort.read("tools/ci_build/github/apple/coreml_supported_neuralnetwork_ops.md")
    listed = {name.lower() for name in re.findall(r"^\|[\w.]+:(\w+)\|", page, flags=re.MULTILINE)}
    texts = [ort.read(path) for path in ort.files(folder, "op_builder.cc")]
    factory = ort.read(f"{folder}/op_builder_factory.cc")
    made = {name: builder for builder, name in re.findall(r"(Create\w+OpBuilder)\(\"(\w+)\",", factory)}
    for kernel in kernels:
        text = next(text for text in texts if re.search(rf"void {made[kernel.name]}\(", text))
        supports = re.search(r"SupportsMLProgram\(\) const override \{ return true; \}", text)
        if supports if ml_program else kernel.name.lower() in listed:
            yield kernel


def openvino(text: str, device: str) -> tuple[Iterator[Kernel], tuple[str, ...]]:
    """Return the operators that OpenVINO's provider takes on a device, and the dtypes that it takes of all of them."""
    listed = text.partition("supported_op_mode = {")[2].partition("\n};")[0]
    names = {
        name
        for name, devices in re.findall(r"^\s*\{\"(\w+)\", V_\w+, \{([^}]*)\}\}", listed, flags=re.MULTILINE)
        if device in devices or "All" in devices
    }
    dtypes = re.findall(rf"supported_types_{device.lower()}_\.insert\([^;]*?TensorProto_DataType_(\w+)\)\)", text)
    always = ("int16", "uint16")  # `type_is_supported` takes these before it looks
    lower = {"float": "float32", "double": "float64"}
    every = _sorted([*always, *(lower.get(name.lower(), name.lower()) for name in dtypes)])
    return (Kernel(_domain_of(name), name, 1, None, {}) for name in sorted(names)), every


def tensorrt(text: str) -> tuple[Iterator[Kernel], int]:
    """Return the operators of onnx-tensorrt's docs/operators.md, and the last opset that it says it takes."""
    last = int(re.search(r"opset \d+ to opset (\d+)", text)[1])  # type: ignore[index]

    def kernels() -> Iterator[Kernel]:
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > 3 and cells[2] == "Y":
                dtypes = _sorted(TENSORRT[word.strip()] for word in cells[3].split(",") if word.strip())
                yield Kernel("ai.onnx", cells[1], 1, last, {"*": dtypes} if dtypes else None)

    return kernels(), last


def webnn(text: str) -> Iterator[Kernel]:
    """Yield the rows of js/web/docs/webnn-operators.md, which says nothing of dtypes."""
    for name, domain, spans in re.findall(r"^\| (\w+) \| ([\w.]+)\(([^)]*)\) \|", text, flags=re.MULTILINE):
        for span in spans.split(","):
            since, until = _span(span.strip())
            yield Kernel(domain, name, since, until, None)


# ---- files -----------------------------------------------------------------------------------------------------------


def providers(ort: Checkout, trt: Checkout) -> Iterator[tuple[Checkout, Provider]]:
    """Yield what is known of each provider, with the repository that says so."""
    core = "onnxruntime/core/providers"
    page = "docs/OperatorKernels.md"
    text = ort.read(page)
    for title, name in (("CPU", "CPU"), ("CUDA", "CUDA"), ("DirectML", "Dml")):
        kernels = tuple(table_of_kernels(text, f"{name}ExecutionProvider"))
        signatures = signatures_of(text, f"{name}ExecutionProvider")
        yield ort, Provider(title, title.lower(), "kernel", (page,), kernels, signatures=signatures)
    folders = (f"{core}/webgpu", "onnxruntime/contrib_ops/webgpu")
    for title, file, int64 in (("WebGPU", "webgpu", False), ("WebGPU, enableInt64", "webgpu_int64", True)):
        kernels = tuple(registered(preprocessed(ort, folders, int64)))
        yield ort, Provider(title, file, "kernel", folders, kernels)
    folders = (f"{core}/js", "onnxruntime/contrib_ops/js")
    kernels = tuple(registered(preprocessed(ort, folders, False)))
    yield ort, Provider("WebGPU, JSEP", "jsep", "kernel", folders, kernels)
    folder = f"{core}/xnnpack"
    kernels = tuple(registered(preprocessed(ort, (folder,), False)))
    yield ort, Provider("XNNPACK", "xnnpack", "kernel", (folder,), kernels)
    page = "js/web/docs/webnn-operators.md"
    yield ort, Provider("WebNN", "webnn", "span", (page,), tuple(webnn(ort.read(page))))
    folder = f"{core}/coreml/builders"
    for title, file, ml_program in (
        ("CoreML, MLProgram", "coreml", True),
        ("CoreML, NeuralNetwork", "coreml_nn", False),
    ):
        default = ("float16", "float32", "int64") if ml_program else ("float32",)
        found = builders(ort, folder, f"{folder}/op_builder_factory.cc", "HasSupportedInputsImpl", default)
        kernels = tuple(with_format(ort, folder, found, ml_program))
        yield ort, Provider(title, file, "span", (folder,), kernels)
    folder = f"{core}/nnapi/nnapi_builtin/builders"
    factory, check = f"{folder}/op_builder_factory.cc", "HasSupportedInputOutputsImpl"
    yield ort, Provider("NNAPI", "nnapi", "span", (folder,), tuple(builders(ort, folder, factory, check, ("float32",))))
    folder = f"{core}/qnn/builder"
    factory = f"{folder}/op_builder_factory.cc"
    yield ort, Provider("QNN", "qnn", "span", (factory,), tuple(builders(ort, folder, factory, "", ())))
    page = f"{core}/openvino/ov_versions/data_ops.cc"
    for device in ("CPU", "GPU"):
        listed, every = openvino(ort.read(page), device)
        file = f"openvino_{device.lower()}"
        yield ort, Provider(f"OpenVINO on {device}", file, "any", (page,), tuple(listed), every=every)
    page = "docs/operators.md"
    listed, last = tensorrt(trt.read(page))
    yield trt, Provider("TensorRT", "tensorrt", "any", (page,), tuple(listed), opset=last)


def as_json(source: Checkout, version: str, provider: Provider) -> str:
    """Return a provider as the text of its file: a line for each operator."""
    head = {
        "title": provider.title,
        "matching": provider.matching,
        "opset": provider.opset,
        "every": " ".join(provider.every) if provider.every else None,
        "source": {**source.facts(), "version": version, "paths": list(provider.sources)},
        "signatures": {name: [list(way) for way in ways] for name, ways in sorted(provider.signatures.items())},
    }
    rows: dict[str, dict[str, list[list[object]]]] = {}
    for kernel in sorted(set(map(_frozen, provider.kernels)), key=str):
        domain, name, since, until, dtypes = kernel
        by_name = None if dtypes is None else {key: " ".join(values) for key, values in dtypes}
        rows.setdefault(domain, {}).setdefault(name, []).append([since, until, by_name])
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    lines.append(' "kernels": {')
    for number, (domain, operators) in enumerate(sorted(rows.items()), 1):
        lines.append(f"  {json.dumps(domain)}: {{")
        lines += [
            f"   {json.dumps(name)}: {json.dumps(spans)}{',' * (place < len(operators))}"
            for place, (name, spans) in enumerate(sorted(operators.items()), 1)
        ]
        lines.append("  }" + "," * (number < len(rows)))
    return "\n".join(["{", *lines, " }", "}", ""])


def _frozen(kernel: Kernel) -> tuple[str, str, int, int | None, tuple[tuple[str, tuple[str, ...]], ...] | None]:
    dtypes = None if kernel.dtypes is None else tuple(sorted(kernel.dtypes.items()))
    return kernel.domain, kernel.name, kernel.since, kernel.until, dtypes


def main(onnxruntime: str, onnx_tensorrt: str) -> None:
    """Write the file of each provider."""
    ort = checkout(onnxruntime, "microsoft/onnxruntime")
    trt = checkout(onnx_tensorrt, "onnx/onnx-tensorrt")
    release = ort.read("VERSION_NUMBER").strip()
    parser = re.search(r"TensorRT ([\d.]+) supports", trt.read("docs/operators.md"))
    versions = {ort.name: f"ONNX Runtime {release}", trt.name: f"TensorRT {parser[1] if parser else ''}"}
    for source, provider in providers(ort, trt):
        path = FOLDER / f"{provider.file}.json"
        path.write_text(as_json(source, versions[source.name], provider), encoding="utf-8")
        unknown = sum(kernel.dtypes is None for kernel in provider.kernels)
        print(f"{path.name}: {len(provider.kernels)} kernels, {unknown} without dtypes", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
