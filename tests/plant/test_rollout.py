"""Roll-outs against a loop in NumPy, closed forms, and automatic differentiation."""

import warnings
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core.numerics import Standardizer
from twofold.model import network, spec
from twofold.model.density import conditional
from twofold.model.network import Layer
from twofold.model.spec import BNNLV, Draws
from twofold.plant import policy
from twofold.plant.cost import cost_of, criterion, risks
from twofold.plant.embedding import embed
from twofold.plant.log import Episode, Log, LogWarning, Window
from twofold.plant.policy import PolicyNetwork
from twofold.plant.rollout import (
    Scales,
    Task,
    draw_noise,
    for_carried,
    particles,
    rollout,
    values_and_gradients,
)

STEPS, DRAWS, COUNT = 6, 3, 4
RATES = 0.05, 0.3


@partial(jax.jit, static_argnums=0)
def roll(task, *arguments):
    return rollout(task, *arguments)


@partial(jax.jit, static_argnums=(0, 1))
def slopes_of(objective, task, *arguments):
    return values_and_gradients(objective, task, *arguments)


@partial(jax.jit, static_argnums=0)
def act(shape, weights, seen):
    return policy.act(shape, policy.layers_of(shape, weights[None]), seen[None, None])[0, 0]


def to_numpy(tree):
    """So that entries are read without a program for each."""
    return jax.tree.map(np.asarray, tree)


def setting(task, key=0):
    keys = jax.random.split(jax.random.key(key), 4)
    weights = jnp.stack([policy.init(own, task.shape) for own in jax.random.split(keys[0])])
    draws = Draws(0.2 * jax.random.normal(keys[1], (DRAWS, 4)), jnp.full((DRAWS, 1), -3.0))
    noise = draw_noise(keys[2], task.model, STEPS, DRAWS, 2 * COUNT)
    starts = Window(jnp.array([[[0.5]], [[-1.0]]]), jnp.zeros((2, 0, 1)))
    return weights, draws, noise, particles(starts, COUNT)


def test_rollout_is_what_a_loop_over_particles_and_steps_gives(task, scales):
    weights, draws, noise, windows = to_numpy(setting(task))
    found = to_numpy(roll(task, scales, weights, draws, noise, windows))
    for draw, own, particle in np.ndindex(DRAWS, 2, 2 * COUNT):
        level_weight, flow_weight, latent_weight, bias = draws.weights[draw]
        level = 0.5 if particle < COUNT else -1.0
        for step in range(STEPS):
            flow = float(act(task.shape, weights[own], np.float32([level]))[0])
            change = level_weight * level + flow_weight * flow + bias
            change += latent_weight * 1.5 * noise.latent[step, draw, particle, 0]
            change += np.exp(-1.5) * noise.additive[step, draw, particle, 0]
            at = step, draw, own, particle
            assert found.features[(*at, 0)] == pytest.approx(level, rel=1e-4, abs=1e-5)
            level += change
            assert found.costs[at] == pytest.approx(level, rel=1e-4, abs=1e-5)
    np.testing.assert_array_equal(found.observations[..., 0], found.costs)


def test_gradient_is_that_of_differentiating_everything(task, scales):
    weights, draws, noise, windows = setting(task, 1)

    def objective(trace):
        return jax.vmap(criterion, in_axes=(2, None, None))(trace.costs, 2.0, 0.5)

    def direct(weights):
        values = objective(rollout(task, scales, weights, draws, noise, windows))
        return values, values

    slopes, values = to_numpy(jax.jit(jax.jacrev(direct, has_aux=True))(weights))
    found = to_numpy(slopes_of(objective, task, scales, weights, draws, noise, windows))
    np.testing.assert_allclose(found[0], values, rtol=1e-6)
    for own in range(2):
        np.testing.assert_allclose(found[1][own], slopes[own, own], rtol=1e-4, atol=1e-5)
        assert np.abs(slopes[own, own]).max() > 0.1


def known(observation, action):
    return {"c": 0.9 * observation["c"] + 0.1 * action["u"]}


def partly(observation, action):
    return {"a": 0.9 * observation["a"] + 0.1 * action["u"]}


SEEN = {
    "plain": ({"history": 3}, 1),
    "known": ({"history": 3, "known": known, "action_history": 2}, 1),
    "mixed": (
        {
            "history": 3,
            "window": {"a": 1, "b": 4, "c": 2},
            "action_history": {"u": 0, "v": 3},
            "known": known,
            "transforms": {"b": "logit"},
        },
        2,
    ),
    "exogenous": ({"history": 3, "exogenous": ["b"]}, 1),
    "exogenous beside known": (
        {"window": {"a": 2, "b": 2, "c": 1}, "exogenous": ["b"], "known": known},
        1,
    ),
    "held": ({"history": 2, "held": ["b"], "deltas": False}, 1),
    "nothing new": ({"window": {"a": 2, "b": 1}, "action_history": 0, "known": known}, 0),
    "what is known is corrected": ({"history": 2, "action_history": 0, "known": partly}, 0),
}


def plant_of(case):
    """Three observations and two actions in units of their own, seen in many ways."""
    rng = np.random.default_rng(0)
    episodes = tuple(
        Episode(
            np.cumsum(rng.normal(size=(40, 3)), 0) * [1, 5, 0.1] + [10, 50, 3],
            rng.uniform(-1, 1, (39, 2)),
            name=str(i),
        )
        for i in range(4)
    )
    log = Log(("a", "b", "c"), ("u", "v"), [-1.0, -1.0], [1.0, 1.0], episodes)
    options, latents = SEEN[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)  # the log does not do what is known
        embedding = embed(log, **options)
    x, y = embedding.design(log)
    windows = to_numpy(jax.tree.map(np.float32, embedding.starts(log, 4)))
    features = np.asarray(jax.jit(jax.vmap(embedding.features))(windows))
    units = (x.mean(0), x.std(0) + 0.1), (y.mean(0), y.std(0))
    units = *units, (features.mean(0) + 0.3, 1.2 * features.std(0) + 0.1)
    task = Task(
        BNNLV(x.shape[1], y.shape[1], (6,), latents, 1.0, 1.5),
        embedding,
        cost_of(lambda row: row["a"] + 0.1 * row["u"], log),
        PolicyNetwork(features.shape[1], (5,), (-1.0, -1.0), (1.0, 1.0)),
    )
    scales = Scales(
        *(Standardizer(*own) for own in jax.tree.map(np.float32, units)), np.float32(1.0)
    )
    return task, scales, jax.tree.map(lambda leaf: leaf[:2], windows)


def inputs_of(task):
    policies = np.stack([policy.init(jax.random.key(i), task.shape) for i in range(2)])
    weights = 0.4 * np.asarray(jax.random.normal(jax.random.key(5), (3, task.model.num_weights)))
    draws = Draws(weights, np.full((3, task.model.outputs), -3.0, np.float32))
    return policies, draws, to_numpy(draw_noise(jax.random.key(6), task.model, 4, 3, 2))


@partial(jax.jit, static_argnums=0)
def one_step(task, scales, own, weights, log_noise, window, latent, additive, coming):
    """What a policy does and what comes of it, by the embedding's functions of whole windows."""
    seen = scales.features.transform(task.embedding.features(window))
    layers = policy.layers_of(task.shape, own[None])
    action = policy.act(task.shape, layers, seen[None, None])[0, 0]
    if task.shape.rates:
        change = jnp.clip(action - window.actions[-1], -jnp.array(RATES), jnp.array(RATES))
        action = window.actions[-1] + change
    x = scales.x.transform(task.embedding.input(window, action, coming))
    first, second = network.unflatten(task.model.sizes, weights[None])
    joined = jnp.concatenate([x, task.model.latent_variance**0.5 * latent])
    hidden = jax.nn.relu(first.kernel[0] @ joined + first.bias[0])
    y = second.kernel[0] @ hidden + second.bias[0] + jnp.exp(0.5 * log_noise) * additive
    following = task.embedding.advance(window, action, scales.y.inverse(y), coming)
    return seen, action, following


@pytest.mark.parametrize(
    ("case", "limited"), [*((case, False) for case in SEEN), ("plain", True), ("exogenous", True)]
)
def test_rollout_is_what_windows_that_are_moved_one_by_one_give(case, limited):
    task, scales, windows = plant_of(case)
    if limited:
        task = replace(task, shape=replace(task.shape, rates=RATES))
    policies, draws, noise = inputs_of(task)
    found = to_numpy(roll(task, scales, policies, draws, noise, windows))
    for draw, own, particle in np.ndindex(3, 2, 2):
        window = Window(windows.observations[particle], windows.actions[particle])
        outside = getattr(windows, "coming", None)
        for step in range(4):
            coming = None if outside is None else outside[particle, step]
            luck = noise.latent[step, draw, particle], noise.additive[step, draw, particle]
            drawn = draws.weights[draw], draws.log_noise[draw]
            moved = one_step(task, scales, policies[own], *drawn, window, *luck, coming)
            seen, action, window = to_numpy(moved)
            at = step, draw, own, particle
            newest = window.observations[-1]
            np.testing.assert_allclose(found.features[at], seen, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found.observations[at], newest, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found.actions[at], action, rtol=1e-4, atol=1e-5)
            if coming is not None:
                assert newest[1] == coming[0]
            paid = newest[0] + 0.1 * action[0]
            assert found.costs[at] == pytest.approx(float(paid), rel=1e-4)


@pytest.mark.parametrize("case", ["mixed", "nothing new"])
def test_gradient_follows_everything_that_is_carried(case):
    task, scales, windows = plant_of(case)
    policies, draws, noise = inputs_of(task)

    def objective(trace):
        return jnp.sum(trace.costs, axis=(0, 1, 3))

    def by_windows(own):
        def along(drawn, window, luck):
            def move(window, luck):
                _, action, window = one_step(task, scales, own, *drawn, window, *luck, None)
                return window, window.observations[-1, 0] + 0.1 * action[0]

            return jax.lax.scan(move, window, luck)[1]

        particles = jax.vmap(along, in_axes=(None, 0, 1))
        return jax.vmap(particles, in_axes=(0, None, 1))(draws, windows, noise).sum()

    _, slopes = slopes_of(objective, task, scales, policies, draws, noise, windows)
    expected = np.asarray(jax.jit(jax.grad(by_windows))(policies[0]))
    size = np.abs(expected).max()
    assert size > 1e-3
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-3, atol=1e-4 * size)


def test_both_risks_of_a_linear_gaussian_system(task, scales):
    """Only the bias differs between weight draws, by a deviation of 0.3: after t steps the level
    varies by ``t² 0.09`` between them and by ``t (w_z² γ_z + σ²)`` within each."""
    draw_count, count, steps = 400, 200, 5
    keys = jax.random.split(jax.random.key(3), 2)
    biases = 0.3 * jax.random.normal(keys[0], (draw_count,))
    draws = Draws(
        jnp.stack([jnp.zeros_like(biases), 0.1 + 0 * biases, 0.4 + 0 * biases, biases], axis=1),
        jnp.full((draw_count, 1), jnp.log(0.25)),
    )
    weights = jnp.zeros_like(policy.init(keys[0], task.shape))[None]  # the middle of the bounds, 1
    noise = draw_noise(keys[1], task.model, steps, draw_count, count)
    windows = particles(Window(jnp.full((1, 1, 1), 2.0), jnp.zeros((1, 0, 1))), count)
    costs = roll(task, scales, weights, draws, noise, windows).costs[:, :, 0]
    times = np.arange(1, steps + 1)
    mean, epistemic, aleatoric = 2.0 + 0.1 * times, 0.09 * times**2, times * (0.16 * 2.25 + 0.25)
    found = risks(costs)
    # Relative standard errors of the variances: sqrt(2 / 400) = 0.07 and sqrt(2 / 80,000) = 0.005;
    # of the mean 0.3 t / 20 at most.
    np.testing.assert_allclose(found.epistemic, epistemic, rtol=4 * 0.072)
    np.testing.assert_allclose(found.aleatoric, aleatoric, rtol=4 * 0.0055)
    np.testing.assert_allclose(costs.mean(axis=(1, 2)), mean, atol=4 * 0.3 * 5 / 20)
    value = float(criterion(costs, 2.0, 1.0))
    expected = np.sum(mean + np.sqrt(4.0 * epistemic + aleatoric))
    assert value == pytest.approx(expected, rel=0.1)


def test_a_layer_for_what_is_carried_gives_what_the_layer_itself_gives(rng, x64):
    """Places out of order and one value that the layer does not see, which may be anything."""
    values = jnp.asarray(rng.normal(size=(7, 4)))
    places = np.array([3, 0, 2], np.int32)
    own = Standardizer(jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.uniform(0.5, 2.0, 3)))
    carried = Standardizer(jnp.asarray(rng.normal(size=4)), jnp.asarray(rng.uniform(0.5, 2.0, 4)))
    layer = Layer(jnp.asarray(rng.normal(size=(2, 5, 3))), jnp.asarray(rng.normal(size=(2, 5))))
    found = for_carried(layer, places, own, carried)
    expected = np.einsum("koi,bi->kbo", layer.kernel, own.transform(values[:, places]))
    outputs = np.einsum("koi,bi->kbo", found.kernel, carried.transform(values))
    np.testing.assert_allclose(
        outputs + found.bias[:, None], expected + layer.bias[:, None], rtol=1e-12
    )
    np.testing.assert_array_equal(found.kernel[..., 1], 0.0)


def test_units_there_and_back(rng, x64):
    units = Standardizer(jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.uniform(0.5, 2.0, 3)))
    values = jnp.asarray(rng.normal(size=(4, 3)))
    np.testing.assert_allclose(units.inverse(units.transform(values)), values, rtol=1e-12)
    np.testing.assert_array_equal(
        units.at(np.array([2])).transform(values[:, 2:]), units.transform(values)[:, 2:]
    )


@pytest.mark.parametrize("hidden", [(6,), ()])
def test_a_model_of_every_form_rolls_out_as_its_own_functions_say(hidden):
    """With a skip connection, levels of z, noise that varies and has a wide part, and a floor."""
    task, scales, windows = plant_of("mixed")
    outputs = task.model.outputs
    model = replace(
        task.model, hidden=hidden, latents=1, latent_levels=4, varying_noise=True,
        scaled_prior=True, linear_skip=True, activation="tanh", noise_floor=(0.1,) * outputs,
    )  # fmt: skip
    task, draws, horizon = replace(task, model=model), 2, 3
    policies = np.stack([policy.init(jax.random.key(0), task.shape)])
    weights = np.asarray(0.4 * jax.random.normal(jax.random.key(5), (draws, model.num_weights)))
    log_noise = np.tile(np.append(np.full(outputs, -3.0), -0.5), (draws, 1)).astype(np.float32)
    noise = to_numpy(draw_noise(jax.random.key(6), model, horizon, draws, 2))
    found = to_numpy(roll(task, scales, policies, Draws(weights, log_noise), noise, windows))

    @jax.jit
    def step(weights, log_noise, window, latent, additive):
        seen = scales.features.transform(task.embedding.features(window))
        own = policy.layers_of(task.shape, jnp.asarray(policies))
        action = policy.act(task.shape, own, seen[None, None])[0, 0]
        x = scales.x.transform(task.embedding.input(window, action))
        z = spec.latent_values(model, latent)[None, :, None]
        out = network.apply(spec.layers(model, weights[None]), x[None], z, model.activate)
        given = conditional(model, out, log_noise[None])
        wide = jax.scipy.stats.norm.sf(additive[-1]) < jax.nn.sigmoid(given.log_odds[0])
        deviation = jnp.exp(0.5 * given.log_variance[0, :, 0]) * jnp.where(wide, spec.WIDE, 1.0)
        y = given.mean[0, :, 0] + deviation * additive[:-1]
        return task.embedding.advance(window, action, scales.y.inverse(y))

    for draw, start in np.ndindex(draws, 2):
        window = jax.tree.map(lambda leaf, i=start: leaf[i], windows)
        for t in range(horizon):
            own = noise.latent[t, draw, start], noise.additive[t, draw, start]
            window = to_numpy(step(weights[draw], log_noise[draw], window, *own))
            reached = found.observations[t, draw, 0, start]
            np.testing.assert_allclose(window.observations[-1], reached, rtol=2e-5, atol=2e-5)
