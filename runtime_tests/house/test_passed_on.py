"""Through how many functions an argument is passed: counted in a made-up package."""

from pathlib import Path
from textwrap import dedent

import pytest

from helpers.functions_of import read
from scripts.passed_on import count

MADE_UP = {
    "posenc_export/proof/exporter/write.py": """
        from functools import partial
        from posenc_export.write.formats.names import FORMATS, Holder
        from posenc_export.proof import called as renamed

        def start(target, folder):
            whole, text = target, "target"
            renamed(1, given=whole)
            other(text)
            later = partial(by_part, 2)
            write = partial(by_part, target.encoding.uncalled(), 2)

            def inner(size):
                closure(target)

            FORMATS["a"].capture(target.encoding)
            held = Holder(target)
            reads(held)

        def other(text): ...
        def by_part(encoding, size): ...
        def closure(target): ...
        def reads(holder: Holder):
            other(holder.size)
            last(holder.kept)
        def last(target): ...
        """,
    "posenc_export/proof/__init__.py": """
        def called(size, given):
            if size:
                called(size - 1, given)
        """,
    "posenc_export/write/formats/__init__.py": """
        def format_(name, *, capture):
            def register(write): ...
            return register
        """,
    "posenc_export/write/formats/names.py": """
        from posenc_export.write.formats import format_

        class Holder:
            kept: object
            size: int

        def captured(encoding): ...

        @format_("a", capture=captured)
        def write_a(program): ...
        """,
}
ALONE = {"start", "called", "closure", "Holder", "last"}


@pytest.mark.parametrize(
    ("parts", "names", "climbs"), [((), ALONE, 1), (("encoding",), {*ALONE, "by_part", "captured"}, 2)]
)
def test_what_is_passed_on_is_followed(tmp_path: Path, parts: tuple[str, ...], names: set[str], climbs: int) -> None:
    for name, text in MADE_UP.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    modules = read({"posenc_export": tmp_path / "posenc_export"})
    counted = count(modules, "posenc_export.proof.exporter.write:start", "target", parts)
    assert {key.partition(":")[2] for key in counted.functions} == names
    assert len(counted.rooms) == 3
    assert len(counted.climbs) == climbs
