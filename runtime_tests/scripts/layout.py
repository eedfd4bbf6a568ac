"""What lies where: the rooms of the product by what their doors say, as docs/explanation/layout.md.

python runtime_tests/scripts/layout.py > docs/explanation/layout.md
"""

import ast
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
LAYERS = [layer.split(" : ") for contract in CONTRACTS for layer in reversed(contract.get("layers", ()))]
ROOMS = tuple(room for layer in LAYERS for room in reversed(layer) if room != "__main__")
"""The rooms of posenc_export, as import-linter holds them: a room imports only rooms before it."""
HEAD = """# What lies where

For those who look for the place of something in the source. The picture has the rooms: a room imports only what lies
to its right, and what lies below. Each folder and each file begins with a line that says what it is, and
`CONTRIBUTING.md` has a table of what to edit.

```
cli -> show -> proof -> read -> write -> bundle -> common      export/posenc_export
                  \\        \\       \\
                   models/posenc_models                        what real models have
                            \\
                             posenc                            what an encoding is
runtime_tests                                                  tests, and the scripts that measure
```
"""
WIDTH = 140
PACKAGES = {"posenc": (), "models/posenc_models": (), "export/posenc_export": ROOMS}
"""The folders of packages, and the order of what lies in them, where it is not that of names."""


def docstring(file: Path) -> str:
    """Return the docstring of a file."""
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def paragraph(text: str) -> str:
    """Return the sentences of a docstring as one paragraph, without its lists and examples."""
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    return " ".join(part for part in parts if not part.startswith((">>>", "* ")))


def section(folder: Path) -> Iterator[str]:
    """Yield the lines of a folder: what its door says, and the folders in it."""
    inside = ", ".join(f"`{path.name}`" for path in sorted(folder.iterdir()) if (path / "__init__.py").is_file())
    said = paragraph(docstring(folder / "__init__.py")) + (f" Folders: {inside}." if inside else "")
    yield from (f"## {folder.relative_to(ROOT)}/", "", textwrap.fill(said, WIDTH, break_on_hyphens=False), "")


def layout() -> str:
    """Return the page."""
    lines = [HEAD]
    for package, rooms in PACKAGES.items():
        lines += section(ROOT / package)
        inside = [ROOT / package / room for room in reversed(rooms)]
        lines += [line for room in inside if room.is_dir() for line in section(room)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(layout(), end="")
