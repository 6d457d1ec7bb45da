"""Stored results of the references, with which other methods are compared."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from paper.reference.populations import Case

FILES = {
    "hmc": "reference_paper.npz",
    "reference": "reference_latent.npz",
    "reference_plain": "reference_plain.npz",
}


class Answers(NamedTuple):
    """A model's split inside the range of the data, and its log-densities of the test data."""

    total: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray
    log_density: np.ndarray


References = Mapping[tuple[str, Case], Answers]


def store_answers(form: str, answers: Mapping[Case, Answers], folder: Path) -> None:
    """Store the answers for one form of the model."""
    arrays = {}
    for case, answer in answers.items():
        place = f"{case.problem}/{case.seed}"
        arrays[place] = np.stack([answer.total, answer.epistemic, answer.aleatoric]).astype(
            np.float32
        )
        arrays[f"{place}/test"] = answer.log_density.astype(np.float32)
    np.savez_compressed(folder / FILES[form], **arrays)


def read_references(folder_with: Callable[[str], Path]) -> References:
    """The stored answers of all references; ``folder_with`` gives the folder of a file."""
    references = {}
    for form, name in FILES.items():
        path = folder_with(name) / name
        if not path.exists():
            continue
        with np.load(path) as arrays:
            for place in (one for one in arrays.files if not one.endswith("/test")):
                problem, seed = place.split("/")
                answer = Answers(*arrays[place], arrays[f"{place}/test"])
                references[form, Case(problem, int(seed))] = answer
    return references
