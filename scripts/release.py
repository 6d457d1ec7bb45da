"""Check that the package can be released; writes ``results/release.json``.

    python scripts/release.py [--python 3.11 3.12 3.13] [--tests] [--keep FOLDER]

Builds wheel and sdist, lets twine check them, installs each into an empty environment (no extras)
of every supported Python, and runs ``scripts/smoke.py`` there; then once more with the oldest
version of every dependency that ``pyproject.toml`` allows. ``--tests`` also runs tests of the
package with those oldest versions. A Python that cannot be found counts as failed. ``--keep``
keeps the built files and the environments in a folder.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from paper.records import Record

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
OLDEST_PYTHON = PYTHONS[0]
REPEATS = 5
TEST_TOOLS = ("pytest", "beartype", "hypothesis", "pandas")
# Tests that need only the core dependencies and these tools.
TESTED = ("core", "model", "inference", "uncertainty", "tables", "estimators", "active")
# The plugin that checks shapes needs a newer jaxtyping than the package.
TEST_OPTIONS = ("-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
IMPORTS = {
    "import_seconds": "import twofold",
    "import_regressor_seconds": "from twofold import BNNLVRegressor",
}
TIMED = """
import time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


class CheckFailed(Exception):
    """A step of the release did not succeed."""


def run(words: list[str | Path], folder: Path) -> str:
    """Run a program in a folder, outside this environment; returns its output."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=env, capture_output=True, text=True
    )
    if done.returncode:
        shown = " ".join(str(word) for word in words)
        raise CheckFailed(f"{shown}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def find_python(version: str) -> str | None:
    """A working interpreter of a version: from pyenv, or on the path."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"))]
    for python in [*found[::-1], shutil.which(f"python{version}")]:
        if python and not subprocess.run([python, "--version"], capture_output=True).returncode:
            return python
    return None


def create_environment(folder: Path, version: str, packages: list[str | Path]) -> Path:
    """A new environment with packages; its interpreter."""
    python = find_python(version)
    if python is None:
        raise CheckFailed(f"no Python {version} on the path or in pyenv's folder")
    run([python, "-m", "venv", folder], folder.parent)
    run([folder / "bin/python", "-m", "pip", "install", "-q", *packages], folder.parent)
    return folder / "bin/python"


def build(folder: Path) -> tuple[Path, Path]:
    """Wheel and sdist, checked by twine."""
    tools = create_environment(folder / "tools", OLDEST_PYTHON, ["build", "twine"])
    run([tools, "-m", "build", "--outdir", folder / "dist", ROOT], folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    run([tools, "-m", "twine", "check", "--strict", wheel, sdist], folder)
    return wheel, sdist


def oldest_versions() -> list[str]:
    """Every dependency at its lower bound, as constraints for pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    matches = [re.fullmatch(r"([\w-]+)>=([\d.]+)", one) for one in project["dependencies"]]
    return [f"{match[1]}=={match[2]}" for match in matches if match]


def check_install(name: str, version: str, packages: list[str | Path], folder: Path) -> bool:
    """Whether an installation passes the smoke test; prints the error if not."""
    try:
        python = create_environment(folder / name, version, packages)
        run([python, ROOT / "scripts/smoke.py"], folder)
    except CheckFailed as error:
        print(f"{name}: failed\n{error}", flush=True)
        return False
    print(f"{name}: works", flush=True)
    return True


def check_tests(folder: Path) -> bool:
    """Whether tests of the package pass with the oldest versions."""
    python = folder / "oldest/bin/python"
    tests = [ROOT / "tests" / one for one in TESTED]
    try:
        run([python, "-m", "pip", "install", "-q", "-c", "oldest.txt", *TEST_TOOLS], folder)
        pytest: list[str | Path] = [python, "-m", "pytest", *TEST_OPTIONS, "-m", "not slow"]
        print(run([*pytest, *tests], ROOT)[-200:])
    except CheckFailed as error:
        print(f"tests with the oldest versions: failed\n{error}", flush=True)
        return False
    return True


def import_seconds(python: Path, statement: str, folder: Path) -> float:
    """The shortest of several imports, each in its own process."""
    code = TIMED.format(statement=statement)
    return min(float(run([python, "-c", code], folder)) for _ in range(REPEATS))


def check(folder: Path, pythons: list[str], tests: bool) -> Record:
    """Run all checks, with environments in a folder."""
    oldest = oldest_versions()
    record = Record("release", {"oldest_versions": oldest, "pythons": pythons}, [])
    wheel, sdist = build(folder)
    record.add("wheel_megabytes", wheel.stat().st_size / 1e6)
    record.add("sdist_megabytes", sdist.stat().st_size / 1e6)
    for version in pythons:
        done = [
            check_install(f"{kind}-{version}", version, [file], folder)
            for kind, file in (("wheel", wheel), ("sdist", sdist))
        ]
        record.add(f"python_{version}/ok", all(done))
    (folder / "oldest.txt").write_text("\n".join(oldest))
    works = check_install("oldest", OLDEST_PYTHON, [wheel, "-c", folder / "oldest.txt"], folder)
    record.add("lower_bounds/ok", works and (not tests or check_tests(folder)))
    installed = folder / f"wheel-{pythons[0]}/bin/python"
    for metric, statement in IMPORTS.items():
        record.add(metric, import_seconds(installed, statement, folder))
    return record


def main() -> None:
    """Check, print and write the record; exit with 1 where a check failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", nargs="+", default=list(PYTHONS), metavar="VERSION")
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--output", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        record = check(folder, given.python, given.tests)
    print(f"wrote {record.write(given.output)}")
    for metric, value in record.metrics.items():
        print(f"{metric:40s} {value:,.3f}")
    sys.exit(not all(value for metric, value in record.metrics.items() if metric.endswith("/ok")))


if __name__ == "__main__":
    main()
