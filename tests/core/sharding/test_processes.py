"""The script of docs/scaling.md in two processes, with two devices each."""

import importlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs/scaling.md"


def script():
    """The Python code of the section on several machines."""
    section = PAGE.read_text().partition("## Several machines")[2].partition("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(code, folder, process, processes, port):
    folder.mkdir()
    own = {
        "COORDINATOR": f"127.0.0.1:{port}",
        "PROCESSES": str(processes),
        "PROCESS": str(process),
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "PYTHONWARNINGS": "ignore",
    }
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | own,
        stderr=subprocess.PIPE,
        text=True,
    )


EVERYTHING = """
import os, sys, warnings
import jax

jax.distributed.initialize(
    os.environ["COORDINATOR"], int(os.environ["PROCESSES"]), int(os.environ["PROCESS"])
)
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
from pathlib import Path

import numpy as np
import work

np.savez("found.npz", **work.everything(Path()))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_everything_that_devices_share_is_shared_by_processes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    work = importlib.import_module("work")
    places, port = [tmp_path / "first", tmp_path / "second"], free_port()
    code = EVERYTHING.format(folder=str(Path(__file__).parent))
    running = [start(code, place, n, 2, port) for n, place in enumerate(places)]
    said = [one.communicate(timeout=600)[1] for one in running]
    assert [one.returncode for one in running] == [0, 0], said
    wanted = work.everything(tmp_path)
    names = [name for name in wanted if not name.startswith("devices/")]
    for found in (np.load(place / "found.npz") for place in places):
        for name in names:
            expected = np.asarray(wanted[name])
            # See TOLERANCE in test_sharding.py.
            allowed = 1e-5 * np.abs(expected).max()
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=allowed, err_msg=name)


@pytest.mark.filterwarnings("ignore")
def test_two_processes_find_what_one_finds(tmp_path):
    code, port = script(), free_port()
    # Every process is to have the whole result, though one alone writes it.
    told = "\nprint(jax.device_count(), parts.total.shape, file=__import__('sys').stderr)"
    places = [tmp_path / "first", tmp_path / "second"]
    running = [start(code + told, place, n, 2, port) for n, place in enumerate(places)]
    said = [one.communicate(timeout=600)[1] for one in running]
    assert [one.returncode for one in running] == [0, 0], said
    assert all("4 (9,)" in text for text in said), said
    assert not (places[1] / "parts.npz").exists()
    found = np.load(places[0] / "parts.npz")

    alone = code.partition("import jax\n")[2].partition("import numpy")
    names = {}
    exec("import numpy" + alone[2].partition("if jax.process_index()")[0], names)
    # float32, and sums in another order: see TOLERANCE in test_sharding.py.
    for name in ("total", "epistemic"):
        wanted = getattr(names["parts"], name)
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)
