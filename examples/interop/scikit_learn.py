"""A pipeline, a grid search and a calibration plot with scikit-learn.

python examples/interop/scikit_learn.py [--smoke] [--output FOLDER]
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from twofold import BNNLVRegressor, Ensemble
from twofold.report import Scores, draw_calibration
from twofold.uncertainty import crps, pit

SMOKE = {"inference__members": 2, "inference__updates": 20}


def main() -> None:
    """Search a grid of settings inside a pipeline, score the best, plot its calibration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0)
    columns = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    regressor = BNNLVRegressor(inference=Ensemble(), random_state=0)
    regressor.set_params(**SMOKE if arguments.smoke else {})
    pipeline = Pipeline([("columns", columns), ("regressor", regressor)])
    grid = {"regressor__hidden_layer_sizes": [(10,), (20, 20)]}
    search = GridSearchCV(pipeline, grid, cv=3, scoring="neg_root_mean_squared_error")
    search.fit(train_X, train_y)
    print(
        f"best settings: {search.best_params_}, RMSE in cross-validation {-search.best_score_:.1f}"
    )

    best, x = search.best_estimator_["regressor"], search.best_estimator_[:-1].transform(test_X)
    density, samples = best.log_likelihood(x, test_y), best.sample(x, 500)
    scores = Scores(pit(samples, test_y.values), crps(samples, test_y.values), density)
    print(f"held out: {scores.summary}")
    print(f"epistemic share of the variance: {epistemic_share(best, x):.0%}")
    draw_calibration({"twofold": scores}).savefig(arguments.output / "calibration.png")
    plt.close("all")
    print(f"wrote {arguments.output / 'calibration.png'}")


def epistemic_share(model: BNNLVRegressor, x: np.ndarray) -> float:
    """Share of the predictive variance that more data could remove."""
    split = model.decompose(x, by="variance")
    return float(split.epistemic.sum() / split.total.sum())


if __name__ == "__main__":
    main()
