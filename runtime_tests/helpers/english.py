"""How the project writes: habits of English that readers stumble over, and names that say nothing."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

HABITS = {
    "a sentence that opens with Of": r"(?:^|[.:;] )Of (?!course\b)\w+",
    "that there is not": r"\b(?:that|which) there (?:is|are)(?: not| none)?(?=[,.;)]|$)",
    "no whole one": r"\bno whole ones?\b",
    "that is no X": r"\b(?:that|which|what) (?:is|are|was|were|has|have) (?:no|none)\b",
    "what no X, what there is": r"\bwhat (?:no|there is|there are)\b",
    "of which no X": r"\bof which (?:no|none|one|all|each|there)\b",
    "none of its own": r"\bnone of (?:its|their|his) own\b",
    "is as one": r"\b(?:is|are) as one\b",
    "as far on as": r"\bas far on as\b",
    "means it to be": r"\bmeans? it to be\b",
    "beside none, of none": r"\b(?:beside|of|for|to|with|from) none\b",
    "as X has it": r"\bas (?:it|they|[a-z]+s) (?:has|have) (?:it|them)\b",
    "that of no X": r"\b(?:that|those) of (?:no|which|what)\b",
    "a stranger's": r"\ba stranger's\b(?! (?:file|model|bundle|graph|module))",
}
"""By what they are called, patterns that a clear sentence does not have."""
EMPTY_NAMES = {"one", "each", "most", "of", "those", "told", "given", "kept", "asked", "turns", "all_"}
"""Words that name nothing: a thing has a name."""


def prose(text: str, suffix: str) -> Iterator[str]:
    """Yield docstrings, messages and comments of Python, or the paragraphs of Markdown, each on one line."""
    if suffix == ".md":
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        yield from (" ".join(block.split()) for block in re.split(r"\n\s*\n|\n(?=[*|])", text))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield " ".join(node.value.split())
    yield from comments(text)


def comments(source: str) -> Iterator[str]:
    """Yield the comments of Python that people read."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (type:|noqa|fmt:)", token.string):
            yield token.string.lstrip("# ")


def habits(path: Path) -> Iterator[str]:
    """Yield where a file has a habit: which, and the words around it."""
    for text in prose(path.read_text(encoding="utf-8"), path.suffix):
        for name, pattern in HABITS.items():
            for match in re.finditer(pattern, text):
                yield f"{path}: [{name}] ...{text[max(0, match.start() - 40) : match.end() + 30]}..."


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, attribute, parameter, function, class and import made there."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield node.lineno, name


def empty_names(path: Path) -> list[str]:
    """Return the names in a file that say nothing."""
    return sorted({name for _, name in names_in(path.read_text(encoding="utf-8"))} & EMPTY_NAMES)
