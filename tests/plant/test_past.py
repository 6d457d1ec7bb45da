"""Where the values of a window are, against windows that are moved by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from twofold.plant.columns import Past

CASES = {
    "all alike": ([3, 3], [1], [False, False]),
    "some longer": ([1, 3, 2], [3, 1], [False, True, False]),
    "some unseen": ([0, 2, 4], [0, 4], [True, True, False]),
    "one only": ([1], [0], [False]),
}


def window(lags, action_lags, step):
    """Observation d at time t is ``100 d + t``, action a is ``−(100 a + t)``; five of each."""
    times = np.arange(step - 4, step + 1)
    observed = [100.0 * d + times for d in range(len(lags))]
    applied = [-(100.0 * a + times[:-1]) for a in range(len(action_lags))]
    return [jnp.asarray(own) for own in observed], [jnp.asarray(own) for own in applied]


@pytest.mark.parametrize("case", CASES)
def test_features_and_inputs_are_the_columns_one_after_the_other(case):
    lags, action_lags, ahead = CASES[case]
    past = Past.of(*CASES[case])
    vector = past.gather(*window(lags, action_lags, 50))
    features = [100.0 * d + 50 - age for d, n in enumerate(lags) for age in reversed(range(n))]
    for a, n in enumerate(action_lags):
        features += [-(100.0 * a + 49 - age) for age in reversed(range(n - 1))]
    np.testing.assert_array_equal(vector[past.features], features)

    new = [100.0 * d + 51 for d in past.computed] + [-(100.0 * a + 50) for a in past.applied]
    inputs = []
    for d, n in enumerate(lags):
        inputs += [100.0 * d + 50 + ahead[d] - age for age in reversed(range(n))]
    for a, n in enumerate(action_lags):
        inputs += [-(100.0 * a + 50 - age) for age in reversed(range(n))]
    np.testing.assert_array_equal(np.append(vector, new)[past.inputs], inputs)


@pytest.mark.parametrize("case", CASES)
def test_a_step_later_it_is_the_vector_of_the_window_a_step_later(case):
    lags, action_lags, _ = CASES[case]
    past = Past.of(*CASES[case])
    vector = past.gather(*window(lags, action_lags, 50))
    observed = jnp.array([100.0 * d + 51 for d in range(len(lags))])
    applied = jnp.array([-(100.0 * a + 50) for a in range(len(action_lags))])
    arriving = past.arrivals(observed, applied)
    following = past.gather(*window(lags, action_lags, 51))
    np.testing.assert_array_equal(past.shift(vector, arriving), following)
    np.testing.assert_array_equal(following[past.ends], arriving)


@pytest.mark.parametrize("case", CASES)
def test_the_newest_of_a_column_is_the_same_for_all_of_its_values(case):
    lags, action_lags, _ = CASES[case]
    past = Past.of(*CASES[case])
    vector = np.asarray(past.gather(*window(lags, action_lags, 50)))
    of_feature = vector[past.features]
    for value, newest in zip(vector, past.newest, strict=True):
        hundreds = np.floor(np.abs(value) / 100.0)
        expected = 100.0 * hundreds + 50 if value > 0 else -(100.0 * hundreds + 49)
        assert of_feature[newest] == expected
