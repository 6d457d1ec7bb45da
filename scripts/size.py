"""Size of the repository, and of the part that a typical task uses: ``results/size.json``.

    python scripts/size.py [--test-seconds S]

Lines and files of the wheel (Python, templates and scripts), of ``paper/`` and of the tests;
import cycles; and, for each of four tasks (*journeys*), the files of the wheel in which at least
one function was called (bodies of modules, classes and comprehensions do not count).
``--test-seconds`` is the time of ``make test`` in a fresh clone; without it the last one is kept.
"""

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from paper.records import Record

ROOT = Path(__file__).resolve().parents[1]
WHEEL = ROOT / "src" / "twofold"
SHIPPED = (".py", ".html", ".js", ".css")

# A journey: code to prepare it, and code that is traced.
PREPARE = """
import numpy as np
from pathlib import Path
rng = np.random.default_rng(0)
x = rng.uniform(-2.0, 2.0, (40, 1))
y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=40)
"""
JOURNEYS = {
    "fit_decompose": (
        "",
        "from twofold import BNNLVRegressor, Ensemble\n"
        "inference = Ensemble(members=4, updates=20)\n"
        "BNNLVRegressor((5,), inference=inference, random_state=0).fit(x, y).decompose(x)\n",
    ),
    "campaign_ask": (
        "from twofold.campaign import Campaign, Continuous\n"
        "settings = {'inference': {'method': 'ensemble', 'members': 4, 'updates': 20}}\n"
        "one = Campaign.create('oven.db', [Continuous('x', -2.0, 2.0)], ['y'], settings=settings)\n"
        "for a, b in zip(x[:, 0].tolist(), y.tolist()):\n"
        "    one.tell({'y': b}, point={'x': a})\n",
        "from twofold.campaign import Campaign\nCampaign.open('oven.db').ask(2)\n",
    ),
    "policy_search": (
        "lines = ['run,t,level,flow']\n"
        "for run in range(6):\n"
        "    level = rng.normal()\n"
        "    for step in range(15):\n"
        "        flow = rng.uniform(0.0, 2.0)\n"
        "        lines.append(f'{run},{step},{level:.4f},{flow:.4f}')\n"
        "        level = 0.8 * level + 0.5 * flow + 0.1 * rng.normal()\n"
        "Path('tank.csv').write_text('\\n'.join(lines))\n"
        "Path('tank.py').write_text('def cost(row):\\n    return row[\"level\"] ** 2\\n')\n",
        "import sys\n"
        "from twofold.cli import main\n"
        "words = 'policy search tank.csv --observations level --action flow:0:2'\n"
        "words += ' --episode run --time t'\n"
        "words += ' --cost tank.py:cost --out tank --horizon 3 --beta 0,2 --setting epochs=1'\n"
        "words += ' --setting updates=2 --setting weight_draws=3 --setting noise_draws=2'\n"
        "words += ' --model epochs=2 --model draws=4'\n"
        "sys.argv = ['twofold', *words.split()]\n"
        "main()\n",
    ),
    "paper_table": (
        "",
        "import runpy, sys\n"
        "sys.argv = ['paper', 'table_1', '--smoke']\n"
        "runpy.run_module('paper', run_name='__main__')\n",
    ),
}
# Runs in a process of its own; prints the files last.
TRACED = """
import sys, threading
OPTIMIZED = 1  # set for functions, not for bodies of modules and classes
NOT_FUNCTIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
files = set()
def on_call(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_flags & OPTIMIZED or code.co_name in NOT_FUNCTIONS:
        return
    if code.co_filename.startswith({root!r}):
        files.add(code.co_filename)
{prepare}
exec({prepared!r})
for name in [name for name in sys.modules if name.split(".")[0] in ("twofold", "paper")]:
    del sys.modules[name]
sys.setprofile(on_call)
threading.setprofile(on_call)
try:
    exec({traced!r})
except SystemExit as stopped:
    assert not stopped.code, stopped.code
sys.setprofile(None)
import json
print()
print(json.dumps(sorted(files)))
"""


def trace(name: str) -> list[str]:
    """Files of the wheel in which a journey calls a function."""
    prepared, traced = JOURNEYS[name]
    code = TRACED.format(root=str(WHEEL), prepare=PREPARE, prepared=prepared, traced=traced)
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode:
        raise SystemExit(f"the journey {name} failed:\n{answer.stderr}")
    return [
        str(Path(file).relative_to(WHEEL)) for file in json.loads(answer.stdout.splitlines()[-1])
    ]


def count(folder: Path, endings: tuple[str, ...] = (".py",)) -> tuple[int, int]:
    """Files and lines under a folder."""
    files = [path for path in folder.rglob("*") if path.suffix in endings]
    return len(files), sum(len(path.read_text().splitlines()) for path in files)


def module_graph() -> dict[str, set[str]]:
    """The modules that each module of twofold imports, also inside functions."""
    files = {}
    for path in WHEEL.rglob("*.py"):
        names = path.relative_to(WHEEL.parent).with_suffix("").parts
        files[".".join(name for name in names if name != "__init__")] = path
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                imported |= {name if name in files else node.module for name in names}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        graph[module] = (imported & files.keys()) - {module}
    return graph


def count_cycles(graph: dict[str, set[str]]) -> int:
    """Number of imports to remove until there are no cycles."""
    graph = {module: set(imported) for module, imported in graph.items()}
    for cycles in range(len(graph)):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            imported, module = error.args[1][:2]
            graph[module].discard(imported)
        else:
            return cycles
    return len(graph)


def main() -> None:
    """Measure, print and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--test-seconds", type=float)
    parser.add_argument("--output", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    record = Record(
        "size", {"journeys": {name: traced for name, (_, traced) in JOURNEYS.items()}}, [0]
    )
    for name, folder, endings in (
        ("wheel", WHEEL, SHIPPED),
        ("paper", ROOT / "paper", (".py",)),
        ("tests", ROOT / "tests", (".py",)),
    ):
        files, lines = count(folder, endings)
        record.add(f"{name}/files", files)
        record.add(f"{name}/lines", lines)
    record.add("module_cycles", count_cycles(module_graph()))
    for name in JOURNEYS:
        files_called = trace(name)
        record.add(f"journeys/{name}/files", len(files_called))
        print(f"{name}: {' '.join(files_called)}")
    if given.test_seconds is not None:
        record.add("make_test/seconds", given.test_seconds)
    path = record.merge(
        given.output, lambda metric: metric == "make_test/seconds" and given.test_seconds is None
    )
    for metric, value in record.metrics.items():
        print(f"{metric:40s} {value:,.0f}")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
