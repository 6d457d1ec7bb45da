"""Imports flow one way, as the picture in docs/architecture.md shows."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "twofold"
# A part may import itself and every part before it; "twofold" is the package's own __init__.
ORDER = ["typing", "naming", "numerics", "data", "sharding", "model", "inference"]
ORDER += ["uncertainty", "active"]
ORDER += [
    "envs",
    "logs",
    "control",
    "compilation",
    "persistence",
    "executors",
    "estimators",
    "baselines",
    "twofold",
]
ORDER += ["campaign", "report", "policies", "experiments", "commands", "cli"]
# These see less than their place allows.
LIMITED = {"envs": {"typing", "numerics", "data"}}
LIMITED |= {alone: set() for alone in ("compilation", "persistence", "sharding")}


def part_of(module):
    """The part a dotted module name belongs to: ``twofold.model.bnn`` is of ``model``."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "twofold"


def imported_modules(source, module, is_package=False):
    """Dotted names of what the source of ``module`` imports from twofold."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".") if is_package else module.split(".")[:-1]
            parents = parents[: len(parents) - node.level + 1] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            names = [origin]
            if origin == "twofold":
                names = [f"twofold.{alias.name}" for alias in node.names]
                names = [name if part_of(name) in ORDER else "twofold" for name in names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "twofold")


def wrong_imports(source, module, is_package=False):
    part = part_of(module)
    allowed = LIMITED.get(part, set(ORDER[: ORDER.index(part)])) | {part}
    imported = imported_modules(source, module, is_package)
    return [name for name in imported if part_of(name) not in allowed]


def module_name(path):
    names = ("twofold", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(name for name in names if name != "__init__")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=module_name)
def test_imports_flow_from_left_to_right_only(path):
    module = module_name(path)
    assert part_of(module) in ORDER, f"{module} has no place in the table of this test"
    assert wrong_imports(path.read_text(), module, path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("twofold.model.bnn", "from twofold.inference import alpha"),
        ("twofold.model.bnn", "from ..inference import alpha"),
        ("twofold.model.bnn", "import twofold.inference.alpha"),
        ("twofold.model.bnn", "def f():\n    from twofold import inference"),
        ("twofold.model.bnn", "from twofold import Regressor"),
        ("twofold.numerics", "from .data import pad"),
        ("twofold.envs.toy", "from twofold.model import bnn"),
        ("twofold.active.loop", "from twofold.envs import toy"),
        ("twofold.persistence", "from twofold.typing import Array"),
        ("twofold.report.figures", "from twofold.experiments import runner"),
        ("twofold.control.risk", "from twofold.unheard_of import thing"),
    ],
)
def test_a_wrong_import_is_found(module, source):
    assert len(wrong_imports(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("twofold.model.bnn", "from twofold.model import network\nfrom . import network"),
        ("twofold.control.search", "from twofold.envs import wet_chicken"),
        ("twofold.experiments.demo", "from twofold.report import figures"),
        ("twofold.cli", "from twofold import Regressor, experiments"),
        ("twofold.persistence", "import numpy as np\nfrom twofolded import other"),
    ],
)
def test_a_right_import_is_let_through(module, source):
    assert wrong_imports(source, module) == []
