"""The words of options as keyword arguments of Python.

Errors name options wherever they are raised, so that one line says what to type. `in_python` translates them for
callers of `posenc_export`.
"""

from __future__ import annotations

import re

from posenc.spec import CHOICES
from posenc_export.proof.judging.verdict import MODEL
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.formats import ATTENTION_OPS, FORMATS, ROTARY_OPS
from posenc_export.write.formats.aoti_package import CPU_ISAS

SAME_NAME = """
    mode method positions dtype opset namespace require atol rtol timeout seed budget batch heads rounds part layer
    layer_type max_len position_offset index_dtype rotary_op attention_op cpu_isa proof runtime_config quantize
    accuracy_level table_rows
"""
KEYWORDS = {
    **{f"--{name.replace('_', '-')}": name for name in SAME_NAME.split()},
    **{"--runtime": "runtimes", "--length": "lengths", "-f": "formats", "--format": "formats"},
}
"""The keyword arguments of options with a value."""
LISTS = ("formats", "runtimes", "require", "lengths")
SWITCHES = {
    **{f"--{name}": f"{name}=True" for name in ("force", "cpp", "html", "prove", "trust")},
    "--check-positions": "check_positions=True",
    **{"--no-validate": "validate=False", "--dynamic": 'mode="dynamic"', "--baked": 'mode="baked"'},
}
"""The keyword arguments of options without a value."""
ALONE = {
    **dict.fromkeys(("-i", "--input"), "inputs="),
    **dict.fromkeys(("-o", "--output"), "to="),
    **{"-p": "", "--from-hf": "ModelConfig.load", "-h": "help", "--help": "help"},
}
"""The other options."""

BEFORE, BEHIND = r"(?<![\w/'\"-])", r"(?![\w/-])"
PORT_TEXT = re.compile(BEFORE + "-i '([^']*)'")
PARAMETER = re.compile(BEFORE + r"-p (\w+)(?:=([\w.-]+))?")
NUMBER = r"[0-9]+|[A-Z]+"
SWITCH_PAIR = re.compile(r'(="\w+") (?=\w+="?\w)')


def in_python(message: str) -> str:
    """Return an error's text with keyword arguments in the place of options."""
    # texts of ports first: their words may look like options
    text = PORT_TEXT.sub(lambda match: f'inputs=["{match[1]}"]', message)
    text = PARAMETER.sub(lambda match: match[1] + (f"={_literal(match[2])}" if match[2] else ""), text)
    text = _option_with_value().sub(_keyword, text)
    words = {**SWITCHES, **KEYWORDS, **ALONE}
    names = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    text = re.sub(rf"{BEFORE}({names}){BEHIND}(:?)", lambda match: _alone(words[match[1]], match[2]), text)
    # mode="dynamic" method="trig" needs a comma in Python
    return SWITCH_PAIR.sub(r"\1, ", text)


def _alone(word: str, colon: str) -> str:
    return word.rstrip("=") + colon if colon else word


def _option_with_value() -> re.Pattern[str]:
    """Return the pattern of an option with a value, or with several and "or" between: a number, or a known word."""
    operators = [*ROTARY_OPS, *ATTENTION_OPS]
    choices = [*(word for choices in CHOICES.values() for word in choices), *operators, *CPU_ISAS, MODEL]
    words = sorted({*choices, *FORMATS.names(), *RUNTIMES.names()}, key=len, reverse=True)
    value = rf"(?:{'|'.join(map(re.escape, words))}|{NUMBER}){BEHIND}"
    names = "|".join(map(re.escape, sorted(KEYWORDS, key=len, reverse=True)))
    return re.compile(rf"{BEFORE}({names}) ({value}(?: or {value})*)")


def _keyword(match: re.Match[str]) -> str:
    """Return the keyword argument that an option with its value stands for."""
    name, values = KEYWORDS[match[1]], match[2].split(" or ")
    literals = [_literal(value) for value in values]
    return f"{name}={' or '.join(f'[{text}]' if name in LISTS else text for text in literals)}"


def _literal(value: str) -> str:
    """Return a value as Python writes it: numbers, True, False, None and placeholders such as N have no quotes."""
    if re.fullmatch(rf"{NUMBER}|-?[0-9.]+(e-?[0-9]+)?", value):
        return value
    return {"true": "True", "false": "False", "none": "None"}.get(value, f'"{value}"')
