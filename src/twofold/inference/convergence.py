"""Did the fit converge? A report on the trend of the energy."""

from typing import NamedTuple

import numpy as np

STEEP_DROP = 0.1


class Convergence(NamedTuple):
    """The energy per datum (nats) and how much it fell over the second half of the run.

    The drop is measured from the middle of the run, while the learning rate is still at half its
    height: a rate that decays to zero flattens every curve at its end, converged or not.
    """

    energy: float
    late_drop: float
    standard_error: float
    epochs: int
    planned_epochs: int

    @property
    def steep(self) -> bool:
        """Whether the energy still fell by more than STEEP_DROP nats, beyond its noise."""
        return self.late_drop - 2.0 * self.standard_error > STEEP_DROP

    @property
    def converged(self) -> bool:
        """Whether the run was completed and its energy had levelled off."""
        return self.epochs == self.planned_epochs and not self.steep


def convergence(energies: np.ndarray, planned_epochs: int) -> Convergence:
    """Compare the twentieth of the run after its middle with its last twentieth."""
    window = max(1, len(energies) // 20)
    middle = energies[len(energies) // 2 :][:window]
    last = energies[-window:]
    error = np.sqrt((np.var(middle) + np.var(last)) / window)
    return Convergence(
        float(last.mean()),
        float(middle.mean() - last.mean()),
        float(error),
        len(energies),
        planned_epochs,
    )


def advice(report: Convergence) -> str | None:
    """A sentence for the user when something is to be done, else None."""
    if not report.steep:
        return None
    return (
        f"the energy still fell by {report.late_drop:.2f} nats per datum over the second half of "
        f"the run ({report.epochs} epochs); increase epochs (twice as many is a good start)"
    )
