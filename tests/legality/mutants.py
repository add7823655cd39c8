"""Finds the checks of a package (``raise Reject(...)``) and leaves out one of them at a time."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

import tvm_vfuse.graph
from tvm_vfuse.errors import Reject


@dataclass(frozen=True)
class Site:
    """One ``raise Reject(reason, message)``.

    Parameters
    ----------
    module : name of its module
    line, last_line : lines of the raise
    function : name of the outermost function or method around it, with its class
    reason : the machine-readable reason
    message : the constant parts of the message
    """

    module: str
    line: int
    last_line: int
    function: str
    reason: str
    message: str


@functools.cache
def sites() -> list[Site]:
    """Every check of ``tvm_vfuse.graph``, in the order of modules and lines."""
    found = []
    for info in pkgutil.iter_modules(tvm_vfuse.graph.__path__):
        module = importlib.import_module(f"tvm_vfuse.graph.{info.name}")
        found += list(_in_body(module.__name__, ast.parse(inspect.getsource(module)).body, ""))
    return found


def _in_body(module: str, body: list[ast.stmt], owner: str) -> Iterator[Site]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _in_body(module, node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            for part in ast.walk(node):
                if _is_check(part):
                    reason, message = (_constant_text(e) for e in part.exc.args[:2])
                    yield Site(module, part.lineno, part.end_lineno, f"{owner}{node.name}", reason, message)


def _is_check(node: ast.AST) -> bool:
    call = node.exc if isinstance(node, ast.Raise) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Reject"


def _constant_text(message: ast.expr) -> str:
    texts = [n.value for n in ast.walk(message) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return "".join(texts)


def site_of(refusal: Reject) -> Site | None:
    """The check that raised, by the innermost frame of its traceback."""
    at = refusal.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    assert at is not None
    module, line = at.tb_frame.f_globals["__name__"], at.tb_lineno
    return next((s for s in sites() if s.module == module and s.line <= line <= s.last_line), None)


@contextlib.contextmanager
def left_out(site: Site) -> Iterator[None]:
    """The package without one check: the raise does nothing."""
    module = importlib.import_module(site.module)
    function = _function(module, site.function)
    original = function.__code__
    function.__code__ = _find(_without(module, site.line), original)
    try:
        yield
    finally:
        function.__code__ = original


def _function(module: ModuleType, name: str) -> FunctionType:
    owner, _, last = name.rpartition(".")
    found = getattr(module, owner).__dict__[last] if owner else getattr(module, last)
    found = inspect.unwrap(found.fget if isinstance(found, property) else found)
    assert isinstance(found, FunctionType)
    return found


def _without(module: ModuleType, line: int) -> CodeType:
    class Drop(ast.NodeTransformer):
        def visit_Raise(self, node: ast.Raise) -> ast.stmt:
            return ast.copy_location(ast.Pass(), node) if node.lineno == line and _is_check(node) else node

    tree = Drop().visit(ast.parse(inspect.getsource(module)))
    return compile(tree, module.__file__ or "", "exec", dont_inherit=False)


def _find(code: CodeType, like: CodeType) -> CodeType:
    """The code object of the same function in a newly compiled module."""
    todo = [code]
    while todo:
        at = todo.pop()
        if at.co_name == like.co_name and at.co_firstlineno == like.co_firstlineno:
            return at
        todo.extend(c for c in at.co_consts if isinstance(c, CodeType))
    raise AssertionError(f"{like.co_name} is not in the module any more")
