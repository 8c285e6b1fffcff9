"""What a result depends on: a hash of the source code that is really used to make it.

Workflow managers see that an input or a parameter has changed, not that code inside an imported
package has. The fingerprint of a module closes that gap: it changes exactly when the meaning of the
module, or of any module of this package that it imports, directly or not, changes. Handed to a rule
as a parameter, it reruns what an edit has made stale, and nothing else.

Imports are read from the source without running it: ``import`` and ``from ... import`` anywhere in
a file, inside functions too. Modules named in strings (:func:`importlib.import_module`) do not
count; the registry of methods finds its members in this way, so that a method does not depend on
the others.
"""

import ast
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package whose modules are followed."""


def fingerprint(
    *modules: str,
    scripts: Iterable[str | Path] = (),
    data: Iterable[str | Path] = (),
    package: str | Path = PACKAGE,
) -> str:
    """Hash the source of modules and scripts, of all they import from the package, and of data.

    Comments, docstrings, blank lines and layout do not count, nor does what an error says: of the
    text in a ``raise`` statement, single words count, which may be a status or a key, but no longer
    strings and no f-strings. The package's ``__version__`` does not count.

    Parameters
    ----------
    *modules : str
        Dotted names of modules of the package, such as ``sdcd.baselines.gies``.
    scripts : iterable of path
        Further Python files whose imports are followed likewise.
    data : iterable of path
        Files of any kind that count byte for byte, such as tables that a module reads.
    package : path
        The package's folder; its name is the package's name.

    Returns
    -------
    str
        16 hexadecimal digits. They depend on the contents and the modules' names, not on where the
        files lie.

    Raises
    ------
    ModuleNotFoundError
        If a module is not in the package.
    """
    package = Path(package).resolve()
    scripts = [Path(script) for script in scripts]
    names = set(modules)
    for script in scripts:
        names |= _imported(script, script.stem, package)
    digest = hashlib.sha256()
    for name in sorted(closure(names, package)):
        digest.update(f"{name} {_meaning(_source_file(name, package), name)}\n".encode())
    for script in sorted(scripts, key=lambda path: path.name):
        digest.update(f"{script.name} {_meaning(script, script.stem)}\n".encode())
    for path in sorted(map(Path, data), key=lambda path: path.name):
        digest.update(path.name.encode() + b" ")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def closure(modules: Iterable[str], package: str | Path = PACKAGE) -> set[str]:
    """The given modules and every module of the package that they import, directly or not.

    A package's ``__init__`` counts as imported by each of its modules, as it is in Python.
    """
    package = Path(package).resolve()
    found: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        path = _source_file(name, package)
        if path is None:
            raise ModuleNotFoundError(f"no module {name!r} in {package}")
        found.add(name)
        pending += _imported(path, name, package)
        if "." in name:
            pending.append(name.rpartition(".")[0])
    return found


def _source_file(name: str, package: Path) -> Path | None:
    top, *rest = name.split(".")
    if top != package.name:
        return None
    path = package.joinpath(*rest)
    for candidate in (path / "__init__.py", path.with_suffix(".py")):
        if candidate.is_file() and (rest or candidate.name == "__init__.py"):
            return candidate
    return None


def _imported(path: Path, name: str, package: Path) -> set[str]:
    """Modules of the package that the file at ``path``, which is the module ``name``, imports."""
    candidates, _ = _read(path, name, path.stat().st_mtime_ns)
    return {module for module in candidates if _source_file(module, package)}


def _meaning(path: Path, name: str) -> str:
    """Hash of a file's syntax tree without docstrings and messages."""
    return _read(path, name, path.stat().st_mtime_ns)[1]


@cache
def _read(path: Path, name: str, _mtime_ns: int) -> tuple[frozenset[str], str]:
    tree = ast.parse(path.read_bytes(), filename=str(path))
    is_package = path.name == "__init__.py"
    candidates = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            candidates |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *filter(None, [node.module])])
            # ``from package import name`` may import a module or a thing inside one.
            candidates |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # Strings that stand alone: docstrings of functions, classes, modules and attributes.
            node.body = [
                statement
                for statement in node.body
                if not _is_string(statement) and not _is_version(statement)
            ]
    tree = _WithoutMessages().visit(tree)
    return frozenset(candidates), hashlib.sha256(_canonical(tree).encode()).hexdigest()


class _WithoutMessages(ast.NodeTransformer):
    """Empties the texts of errors."""

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return _WithoutText().visit(node)


class _WithoutText(ast.NodeTransformer):
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("")

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        is_text = isinstance(node.value, str) and not re.fullmatch(r"\w+", node.value)
        return ast.Constant("") if is_text else node


def _is_version(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__version__"


def _is_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _canonical(node: object) -> str:
    """Like :func:`ast.dump`, but the same for every version of Python that knows the syntax.

    Fields that are absent or empty are left out, so that fields new in a version do not count
    where they are not used.
    """
    if isinstance(node, ast.AST):
        fields = (
            f"{name}={_canonical(value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != [] and name != "type_comment"
        )
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    return repr(node)
