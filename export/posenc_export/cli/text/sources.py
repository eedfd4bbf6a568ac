"""What an export begins with, read from text: SCHEME, --from-hf, --model, -p and -i become a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_export.common.errors import BadInput, bad_input
from posenc_export.write.formats.onnx.place import check_file
from posenc_export.write.inputs.ports import assumptions, parse_ports
from posenc_export.write.inputs.renames import parse_rename

if TYPE_CHECKING:
    from posenc.ports import Port
    from posenc_models import ModelConfig, ModelFolder

ONNX, WHOLE = ".onnx", "--model"
Values = Mapping[str, Any]
"""The values that click has read, by the names of its parameters."""


@dataclass(frozen=True)
class TextSource:
    """The source that the options ask for.

    Args:
        inputs: ports of a module.
        settings: of the spec.
        texts: -p as it was typed.
        notes: assumptions about inputs.
        renames: names of a file's inputs and outputs, with the source's names for them.
    """

    source: str | ModelConfig | ModelFolder
    inputs: tuple[Port, ...]
    settings: Mapping[str, object]
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    renames: tuple[str, ...] = ()

    def parameters(self) -> dict[str, object]:
        """Return the values of -p for the parameters of the source; this loads the scheme, or the user's module.

        Raises BadInput, in one line, for a value that does not fit.
        """
        from posenc.parameters import Parameter, parameters_of, parse
        from posenc.signatures import declared_parameters
        from posenc_models import ModelFolder

        if not self.texts or isinstance(self.source, ModelFolder):
            return {}
        name = self.source if isinstance(self.source, str) else self.source.scheme
        known: dict[str, Parameter]
        if ":" in name:
            from posenc_export.write.targets.module import import_factory

            factory = import_factory(name)
            known = parameters_of(factory) if callable(factory) else {}
        else:
            with bad_input():
                known = declared_parameters(name)
        with bad_input():
            return parse(self.texts, known, name)


def check_texts(texts: Iterable[str]) -> None:
    """Raise ValueError for a -p without a value, which would pass for SCHEME otherwise."""
    for text in texts:
        if "=" not in text:
            raise ValueError(f"-p {text}: expected KEY=VALUE, as in -p d_model=512")


WITH_MODEL = {
    "task": "says what a whole model is for",
    "quantize": "is for the weights of a whole model",
    "adapter": "is merged into a whole model",
    "last_logits": "is for a whole model that writes tokens",
    "any_image_size": "is for a whole model of images",
    "allow_unused_weights": "is for the weights of a whole model",
}
"""Options that go with --model alone, with what the error for one says of it."""


def read_source(values: Values) -> TextSource:
    """Return the source that the options ask for; raise UsageError for options that do not go with it."""
    values = {**values, "mode": _mode(values)}
    with bad_input():
        check_texts(values["params"])
    if values.get("model") is not None:
        return _whole(values)
    for name, words in WITH_MODEL.items():
        if values.get(name) not in (None, False):
            raise click.UsageError(f"--{name.replace('_', '-')} {words}: give --model with it")
    config = _config(values)
    name = "sinusoidal" if values["scheme"] is None else values["scheme"]
    # a colon stands in package.module:factory alone
    if config is None and ":" in name:
        _check_module(name, values)
    elif config is None:
        _check_scheme(name, values)
    if (config or ":" not in name) and values["method"] and values["mode"] != "dynamic":
        raise click.UsageError("--method chooses how a dynamic graph computes angles: give --dynamic with it")
    with bad_input():
        inputs = parse_ports(values["inputs"])
        notes = assumptions(values["inputs"])
    return TextSource(config or name, inputs, _spec_settings(values), values["params"], notes)


def check_target(name: str, inputs: Sequence[str]) -> None:
    """Raise BadInput, in one line, where there is no such target to hold a file against, or an input cannot be read.

    Args:
        name: package.module:factory, which is imported; a scheme; or the path of another ONNX file.
        inputs: texts as `-i` takes them.
    """
    with bad_input():
        parse_ports(tuple(text for text in inputs if not parse_rename(text)))
    if name.endswith(ONNX):
        check_file(Path(name))
    elif ":" in name:
        from posenc_export.write.targets.module import import_factory

        import_factory(name)
    else:
        _check_scheme(name, {})


def against_source(values: Values) -> TextSource:
    """Return what the options of `posenc prove` hold a file against; raise UsageError where they do not say it."""
    against: str | None = values["against"]
    if against is None and values["from_hf"] is None and values["model"] is None:
        raise click.UsageError(
            "say what the file is to be: --against package.module:factory, a scheme or another ONNX file, --from-hf, "
            "or --model"
        )
    renames = tuple(text for text in values["inputs"] if parse_rename(text))
    ports = tuple(text for text in values["inputs"] if text not in renames)
    values = {**values, "scheme": against, "inputs": ports}
    if against is not None and values["model"] is not None:
        raise click.UsageError("--against and --model both say what the file is to be: give one of them")
    if against is None or not against.endswith(ONNX):
        return replace(read_source(values), renames=renames)
    _check_module(against, {**values, "mode": _mode(values)})
    if values["params"] or values["from_hf"]:
        raise click.UsageError(f"-p and --from-hf are for schemes and modules: {against} is an ONNX file")
    with bad_input():
        inputs, notes = parse_ports(ports), assumptions(ports)
    return TextSource(against, inputs, _spec_settings(values), (), notes, renames)


def _mode(values: Values) -> str | None:
    """Return the mode that --dynamic, --baked or --mode asks for; None where nothing was typed."""
    mode: str | None = values["mode"]
    short = {None: None, True: "dynamic", False: "baked"}[values["dynamic"]]
    if mode and short and mode != short:
        raise click.UsageError(f"--mode {mode} and --{short} contradict: give one of them")
    return mode or short


def _config(values: Values) -> ModelConfig | None:
    from posenc_models import ModelConfig

    path: Path | None = values["from_hf"]
    if path is None:
        for option, among in (("layer_type", "layers"), ("layer", "layers"), ("part", "parts")):
            if values[option] is not None:
                name = f"--{option.replace('_', '-')}"
                raise click.UsageError(f"{name} chooses among the {among} of a config: give --from-hf with it")
        return None
    if values["inputs"]:
        raise click.UsageError("-i gives the inputs of package.module:factory; --from-hf has its own")
    with bad_input():
        config = ModelConfig.load(path, values["layer_type"], values["part"], values["layer"])
        scheme = config.scheme
    if values["scheme"] not in (None, scheme):
        raise click.UsageError(f"{path} describes {scheme}, not {values['scheme']}: leave SCHEME out")
    return config


def _whole(values: Values) -> TextSource:
    """Return the source that --model names; raise UsageError for options of other sources beside it."""
    from posenc_models import ModelFolder

    others = {"SCHEME": "scheme", "--from-hf": "from_hf", "-i": "inputs", "-p": "params"}
    given = next((option for option, name in others.items() if values[name]), None)
    if given is not None:
        raise click.UsageError(f"{given} is not for whole models: --model has its own inputs and numbers")
    _check_module(WHOLE, {**values, "dtype": "fp32"})  # a module has its own dtype; of a whole model it is a choice
    with bad_input():
        folder = ModelFolder.load(
            values["model"],
            values["task"],
            values["dtype"],
            values.get("quantize"),
            allow_unused=bool(values.get("allow_unused_weights")),
            adapter=values.get("adapter"),
            last_token=bool(values.get("last_logits")),
            any_image_size=bool(values.get("any_image_size")),
        )
    return TextSource(folder, (), _spec_settings(values), (), ())


def _check_scheme(name: str, values: Values) -> None:
    """Raise BadInput for an unknown scheme, and for what it has not, before torch is imported for the others."""
    from posenc.scheme import SCHEMES
    from posenc.signatures import declared_unsupported

    module = name.removesuffix(".py")
    if name not in SCHEMES.names() and Path(f"{module}.py").is_file():
        dotted = ".".join(Path(module).parts)
        raise BadInput(f"{name} is no scheme: give a module of your own as {dotted}:NAME, NAME being what makes it")
    with bad_input():
        declared_unsupported(name).check(name, values)


def _check_module(name: str, values: Values) -> None:
    """Raise UsageError for an option of schemes beside a module, and for a module named by its file."""
    file, _, factory = name.partition(":")
    if file.endswith(".py"):
        dotted = ".".join(Path(file).with_suffix("").parts)
        raise click.UsageError(f"{name}: give it by the module's name, as {dotted}:{factory}")
    of_schemes = {
        "--baked": values["mode"] == "baked",
        "--method": values["method"],
        "--positions": values["positions"],
        "--position-offset": values["position_offset"],
        "--dtype": values["dtype"] != "fp32",
        "--index-dtype": values["index_dtype"] != "int64",
        "--table-rows": values["table_rows"],
    }
    wrong = next((option for option, used in of_schemes.items() if used), None)
    if wrong is not None:
        advice = "leave it out" if name == WHOLE else "give it as -p, or in -i"
        raise click.UsageError(f"{wrong} is for schemes; {name} decides that itself: {advice}")


def _spec_settings(values: Values) -> dict[str, object]:
    """Return the fields of the spec that were typed."""
    fields = ("mode", "method", "positions", "position_offset", "max_len", "dtype", "index_dtype", "table_rows")
    return {name: values[name] for name in fields if values[name] is not None}
