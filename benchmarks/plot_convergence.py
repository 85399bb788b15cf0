"""The picture of the README: primal and dual meeting on the demo's data.

python benchmarks/plot_convergence.py [--output docs/images/convergence.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from partwise import SequenceLabeler
from partwise.data.digit_dates import digit_dates
from partwise.report.plots import plot_convergence

TOL = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("docs/images/convergence.png"))
    output = parser.parse_args().output
    train, _ = digit_dates(n_train=1500)
    model = SequenceLabeler(loss="log", l2=3.0, tol=TOL, certificate_every=1).fit(
        train.inputs(), train.labels()
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    plot_convergence({"CRF, 1,500 handwritten dates": model.history_}, output, tol=TOL)
    print(f"{output}: {model.stop_reason_}, after {model.n_passes_:.0f} passes")


if __name__ == "__main__":
    main()
