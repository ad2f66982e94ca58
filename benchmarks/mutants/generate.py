"""Mutants made from the source: what every error term and every direction is worth.

Six kinds, each a single change of one expression:

* ``other side``: a comparison with `Bound.PESSIMISTIC` or `Bound.OPTIMISTIC`, or a flag such as
  ``upper``, says the opposite where it decides something;
* ``left out``: a term of an error, of a truncation, of what is missing or rounded, is zero;
* ``not rounded``: a bound that is moved outwards (`raised`, `lowered`, `outwards`, `share`) is the
  number itself;
* ``one order``: of a loss and its reversed one only one is looked at;
* ``not signed``: a field is left out of a digest;
* ``not checked``: what a stored file is refused for (`certificates`, `training`) is let through.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.mutants.mutant import PACKAGE, ROOT, Mutant

ROOMS = (
    "baselines",
    "certificates",
    "engine",
    "lattice",
    "losses",
    "numerics",
    "reductions",
    "sums",
    "training",
)
"""Rooms of the package whose answers are bounds, or that keep what bounds are made from."""

OTHER_SIDE, LEFT_OUT, NOT_ROUNDED = "other side", "left out", "not rounded"
ONE_ORDER, NOT_SIGNED, NOT_CHECKED = "one order", "not signed", "not checked"

# Rooms that read what others may have altered.
_READERS = ("certificates/", "training/")
# Glue to other libraries, where no bound is computed and whose tests need those libraries.
_LEFT_ALONE = ("training/experiments", "training/flower", "training/opacus")

_SIDES = {"PESSIMISTIC": "OPTIMISTIC", "OPTIMISTIC": "PESSIMISTIC"}
_FLAGS = {"upper", "opposite", "swapped", "backward", "pessimistic", "optimistic"}
_MOVED_OUTWARDS = {"raised", "lowered", "outwards", "share"}
# Functions of `numerics.rounding` that bound an error.
_BOUNDS = {
    "difference",
    "exponential",
    "log1p",
    "logarithm",
    "pairwise_sum",
    "product",
    "roundings",
    "sequential_sum",
    "underflow",
}
_ROUNDING = f"{PACKAGE}.numerics.rounding"
# Words in names of quantities that are added to a bound because something was left out or rounded;
# those in the second set mean other things as well, and count only where they are added.
_ERRORS = {
    *("aliasing", "beyond", "charge", "charges", "doubt", "dropped", "error", "errors"),
    *("infinite", "lost", "misses", "missed", "missing", "off", "outside", "relative", "rounding"),
    *("roundoff", "slack", "surplus", "truncated", "truncation", "wrapped", "wrong"),
}
_ADDED = _ERRORS | {
    *("cut", "moved", "noise", "rare", "smallest", "subnormal", "tail", "tails", "underflow"),
}


def generated(root: Path = ROOT) -> list[Mutant]:
    """The mutants of all rooms, in the order of files and lines."""
    package = root / PACKAGE
    paths = sorted(path for room in ROOMS for path in (package / room).rglob("*.py"))
    files = ((path.relative_to(package).as_posix(), path) for path in paths)
    return [
        mutant
        for file, path in files
        if not file.startswith(_LEFT_ALONE)
        for mutant in mutants_of(file, path.read_text(encoding="utf-8"))
    ]


@cache
def mutants_of(file: str, source: str) -> tuple[Mutant, ...]:
    """The mutants of one file.

    Args:
        file: its path in the package.
        source: its text.
    """
    return tuple(_Reader(file, source).mutants())


def _tokens(name: str) -> set[str]:
    """The words of a name; none of a logarithm, which is no term of an error."""
    words = set(name.lower().replace("round_off", "roundoff").strip("_").split("_"))
    return set() if "log" in words else words


def _name(node: ast.expr) -> str:
    """The last part of a name, of an attribute or of what is called; else empty."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _zero(node: ast.expr) -> bool:
    """Whether nothing would change if it were left out."""
    if isinstance(node, ast.Call) and _name(node) in ("zeros", "zeros_like"):
        return True
    return isinstance(node, ast.Constant) and (not node.value or isinstance(node.value, str | bool))


class _Reader:
    """Walks through a file and collects what may be changed."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.content = source.encode()
        self.starts = [0]
        for line in self.content.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.tree = ast.parse(source)
        self.bounds = {
            alias.asname or alias.name
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and node.module == _ROUNDING
            for alias in node.names
            if alias.name in _BOUNDS
        }
        if file == "numerics/rounding.py":
            self.bounds = set(_BOUNDS)
        self.found: dict[tuple[int, int, str], tuple[int, str, str, str]] = {}

    def mutants(self) -> Iterator[Mutant]:
        """All of them, in the order of the source."""
        self._walk(self.tree, "")
        seen: Counter[tuple[str, str, str]] = Counter()
        for (start, stop, new), (line, function, kind, piece) in sorted(self.found.items()):
            alike = function, kind, piece
            seen[alike] += 1
            yield Mutant(self.file, *alike, seen[alike], line, start, stop, new)

    # ------------------------------------------------------------------------------- the source

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        start, stop = self._span(node)
        return self.content[start:stop].decode()

    def _change(self, node: ast.expr, function: str, kind: str, new: str, said: str = "") -> None:
        start, stop = self._span(node)
        piece = " ".join((said or self._text(node)).split())
        piece = re.sub(r",? (?=[)\]])", "", re.sub(r"(?<=[(\[]) ", "", piece))
        self.found.setdefault((start, stop, new), (node.lineno, function, kind, piece))

    def _leave_out(self, node: ast.expr, function: str) -> None:
        if not _zero(node):
            # a product, so that an array stays one of its shape
            self._change(node, function, LEFT_OUT, f"(0.0 * ({self._text(node)}))")

    # --------------------------------------------------------------------------------- the walk

    def _walk(self, node: ast.AST, function: str) -> None:
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call) and _name(node) in ("disturbed", "rounded"):
            # by how much arithmetic errs in tests is no allowance
            children = node.args[:1]
        for child in children:
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                inner = f"{function}.{child.name}".lstrip(".")
            self._visit(child, inner)
            self._walk(child, inner)

    def _visit(self, node: ast.AST, function: str) -> None:
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            self._flags(node.test, function)
            if isinstance(node, ast.If) and self.file.startswith(_READERS):
                self._checked(node, function)
        elif isinstance(node, ast.Compare):
            self._compared(node, function)
        elif isinstance(node, ast.Call):
            self._call(node, function)
        elif isinstance(node, ast.Assign):
            self._assigned(node.targets[0], node.value, function)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assigned(node.target, node.value, function)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            self._assigned(node.target, node.value, function)
            for term in self._terms(node.value):
                if self._is_error(term):
                    self._leave_out(term, function)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            for term in self._terms(node):
                if self._is_error(term):
                    self._leave_out(term, function)
        elif isinstance(node, ast.Return) and node.value is not None:
            if _tokens(function.split(".")[-1]) & _ERRORS:
                self._each_term(node.value, function)
        elif isinstance(node, ast.Set):
            self._orders(node, function)

    def _flags(self, test: ast.expr, function: str) -> None:
        """Flags that a branch depends on say the opposite."""
        for node in ast.walk(test):
            if isinstance(getattr(node, "ctx", None), ast.Store):  # of a loop inside
                continue
            if isinstance(node, ast.Name | ast.Attribute) and _name(node) in _FLAGS:
                text = self._text(node)
                self._change(node, function, OTHER_SIDE, f"(not {text})", self._text(test))

    def _checked(self, node: ast.If, function: str) -> None:
        """What only raises does not."""
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
            self._change(node.test, function, NOT_CHECKED, "False")

    def _compared(self, node: ast.Compare, function: str) -> None:
        """A comparison with a side is one with the other side."""
        right = node.comparators[0]
        if len(node.ops) == 1 and isinstance(right, ast.Attribute) and right.attr in _SIDES:
            assert isinstance(right.value, ast.Name)
            new = f"{right.value.id}.{_SIDES[right.attr]}"
            self._change(right, function, OTHER_SIDE, new, self._text(node))

    def _call(self, node: ast.Call, function: str) -> None:
        name = _name(node)
        if name in _MOVED_OUTWARDS and isinstance(node.func, ast.Name) and node.args:
            value, *others = (self._text(argument) for argument in node.args)
            new = f"(({value}) * ({others[0]}))" if name == "share" else f"[{value}][0]"
            self._change(node, function, NOT_ROUNDED, new)
        if name in self.bounds:
            self._leave_out(node, function)
        for argument in node.args:
            if isinstance(argument, ast.Attribute) and argument.attr in _SIDES:
                assert isinstance(argument.value, ast.Name)
                new = f"{argument.value.id}.{_SIDES[argument.attr]}"
                self._change(argument, function, OTHER_SIDE, new, self._text(node))
        for keyword in node.keywords:
            if keyword.arg is None:
                continue
            if keyword.arg in _FLAGS and isinstance(keyword.value, ast.Name | ast.Attribute):
                text = self._text(keyword.value)
                said = f"{keyword.arg}={text}"
                self._change(keyword.value, function, OTHER_SIDE, f"not {text}", said)
            elif function and _tokens(keyword.arg) & _ERRORS:  # elsewhere they are settings
                self._each_term(keyword.value, function)
        if name == "digest_of" and isinstance(node.args[0], ast.List | ast.Tuple):
            for element in node.args[0].elts:
                new = "*()" if isinstance(element, ast.Starred) else "None"
                self._change(element, function, NOT_SIGNED, new)

    def _assigned(self, target: ast.expr, value: ast.expr, function: str) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assigned(one, other, function)
        elif _tokens(_name(target)) & _ERRORS:
            self._each_term(value, function)

    def _each_term(self, value: ast.expr, function: str) -> None:
        """The terms of an error are left out, one at a time."""
        if isinstance(value, ast.Lambda | ast.Dict | ast.List | ast.Compare | ast.BoolOp):
            return
        if isinstance(value, ast.Tuple):
            for element in value.elts:
                self._each_term(element, function)
            return
        for term in self._terms(value):
            self._leave_out(term, function)

    def _terms(self, node: ast.expr) -> Iterator[ast.expr]:
        """The terms of a sum or difference."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            yield from self._terms(node.left)
            yield from self._terms(node.right)
        else:
            yield node

    def _is_error(self, term: ast.expr) -> bool:
        """Whether a term is named for an error, perhaps times a factor."""
        if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
            return self._is_error(term.left) or self._is_error(term.right)
        if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Div):
            return self._is_error(term.left)
        if isinstance(term, ast.UnaryOp):
            return self._is_error(term.operand)
        if isinstance(term, ast.IfExp):
            return self._is_error(term.body) or self._is_error(term.orelse)
        if isinstance(term, ast.Subscript):
            return self._is_error(term.value)
        if isinstance(term, ast.Call):
            name = _name(term)
            if name in ("float", "abs", "min", "max", "asarray", "maximum", "minimum", "sum"):
                return any(self._is_error(argument) for argument in term.args)
            return name in self.bounds or bool(_tokens(name) & _ERRORS)
        return bool(_tokens(_name(term)) & _ADDED)

    def _orders(self, node: ast.Set, function: str) -> None:
        """Of ``{loss, loss.reversed}`` one is left out."""
        texts = [self._text(element) for element in node.elts]
        if len(texts) == 2 and any(a == f"{b}.reversed" for a, b in (texts, texts[::-1])):
            for text in texts:
                self._change(node, function, ONE_ORDER, f"{{{text}}}", f"{{{text}}}")
