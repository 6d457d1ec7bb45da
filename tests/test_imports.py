"""Imports flow one way, among packages and among modules, as docs/architecture.md shows."""

import ast
import importlib.util
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What each package of twofold may import beside itself.
MAY_IMPORT = {
    "core": set(),
    "model": {"core"},
    "inference": {"core", "model"},
    "uncertainty": {"core", "model"},
    "tables": {"core"},
    "envs": {"core"},
    "estimators": {"core", "model", "inference", "uncertainty", "tables"},
}
MAY_IMPORT["active"] = MAY_IMPORT["estimators"] | {"estimators"}
MAY_IMPORT["campaign"] = MAY_IMPORT["active"] | {"active"}
MAY_IMPORT["plant"] = MAY_IMPORT["estimators"] | {"estimators", "envs"}
MAY_IMPORT["report"] = MAY_IMPORT["campaign"] | {"campaign", "plant", "envs"}
MAY_IMPORT["cli"] = MAY_IMPORT["report"] | {"report", "twofold"}
# The facade: names for users.
MAY_IMPORT["twofold"] = set(MAY_IMPORT["cli"])


def module_files():
    """Every module of twofold, with its file."""
    found = {}
    for path in sorted((ROOT / "src" / "twofold").rglob("*.py")):
        names = path.relative_to(ROOT / "src").with_suffix("").parts
        found[".".join(name for name in names if name != "__init__")] = path
    return found


def package_of(module):
    """``twofold.model.spec`` is of ``model``; ``twofold`` itself is the facade."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "twofold"


def imported_modules(source, modules):
    """Modules that a source imports, also inside functions and for types only."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module


def wrong_imports(source, module, modules):
    """Imports of a module that its package may not have."""
    allowed = MAY_IMPORT[package_of(module)] | {package_of(module)}
    imported = [name for name in imported_modules(source, modules) if name != module]
    own = [name for name in imported if name.split(".")[0] == "twofold"]
    outside = [name for name in imported if name.split(".")[0] in ("paper", "benchmarks", "tests")]
    return [name for name in own if package_of(name) not in allowed] + outside


@pytest.mark.parametrize(("module", "path"), module_files().items())
def test_a_package_imports_only_those_below_it(module, path):
    assert package_of(module) in MAY_IMPORT, f"{module} has no place in the table of this test"
    assert wrong_imports(path.read_text(), module, module_files()) == []


def test_no_modules_import_each_other_in_a_circle():
    modules = module_files()
    graph = {
        module: {name for name in imported_modules(path.read_text(), modules) if name in modules}
        - {module}
        for module, path in modules.items()
    }
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("twofold.model.spec", "from twofold.inference import alpha"),
        ("twofold.model.spec", "import twofold.inference.alpha"),
        ("twofold.model.spec", "def f():\n    from twofold.inference.alpha import Alpha"),
        ("twofold.core.numerics", "from twofold.model import network"),
        ("twofold.envs.toy", "from twofold.model import network"),
        ("twofold.active.loop", "from twofold.envs import toy"),
        ("twofold.plant.project", "from twofold.report import page"),
        ("twofold.report.page", "from paper import runner"),
        ("twofold.model.spec", "from twofold import BNNLVRegressor"),
    ],
)
def test_a_wrong_import_is_found(module, source):
    assert len(wrong_imports(source, module, module_files())) == 1


def test_a_circle_is_found():
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"c"}, "c": {"a"}}).prepare()


OUTSIDE = [
    p for f in ("benchmarks", "examples", "paper", "scripts") for p in (ROOT / f).rglob("*.py")
]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_that_other_folders_import_exist(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "twofold":
            module = importlib.import_module(node.module)
            for alias in node.names:
                found = hasattr(module, alias.name)
                assert found or importlib.util.find_spec(f"{node.module}.{alias.name}"), alias.name
