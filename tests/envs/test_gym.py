"""Every system passes Gymnasium's own checks, and many at once do what one does."""

import subprocess
import sys

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="Gymnasium is not installed (extra rl)")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from twofold.envs import catalogue  # noqa: E402
from twofold.envs.gym import IDS, SystemEnv, SystemVectorEnv  # noqa: E402


@pytest.mark.parametrize("name", catalogue.SYSTEMS)
def test_gymnasium_accepts_it(name, recwarn):
    env = gymnasium.make(IDS[name])
    check_env(env.unwrapped, skip_render_check=True)
    # Costs have no bounds, which Gymnasium remarks on.
    remarks = [str(w.message) for w in recwarn if "gymnasium" in str(w.filename)]
    assert not [remark for remark in remarks if "infinity" not in remark]


@pytest.mark.parametrize("name", catalogue.SYSTEMS)
def test_an_episode_is_cut_off_at_the_horizon_and_repeats_with_its_seed(name):
    env = gymnasium.make(IDS[name])
    horizon = catalogue.make(name).horizon
    runs = []
    for _ in range(2):
        first, _ = env.reset(seed=3)
        env.action_space.seed(3)
        seen = [first]
        for t in range(horizon):
            observation, reward, ended, cut, _ = env.step(env.action_space.sample())
            seen.append(np.append(observation, reward))
            assert not ended and cut == (t == horizon - 1)
        runs.append(np.concatenate(seen))
    np.testing.assert_array_equal(*runs)


def steps_until_cut(env):
    """How many steps an episode has, of all copies alike where there are many."""
    env.reset(seed=0)
    for t in range(1, 300):
        *_, cut, _ = env.step(env.action_space.sample())
        if np.all(cut):
            return t
        assert not np.any(cut)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, 100),
        ({"horizon": 7}, 7),
        ({"horizon": 130}, 130),
        ({"max_episode_steps": 5}, 5),
        ({"horizon": 7, "max_episode_steps": 5}, 5),
        ({"horizon": 7, "max_episode_steps": 9}, 7),
        ({"horizon": 7, "max_episode_steps": -1}, 7),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["one", "vector_entry_point", "sync"])
def test_the_horizon_cuts_off_unless_max_episode_steps_comes_first(mode, settings, steps):
    if mode == "one":
        env = gymnasium.make(IDS["wet_chicken"], **settings)
    else:
        env = gymnasium.make_vec(IDS["wet_chicken"], 2, vectorization_mode=mode, **settings)
    assert steps_until_cut(env) == steps


@pytest.mark.parametrize("name", catalogue.SYSTEMS)
def test_every_system_takes_a_horizon(name):
    assert steps_until_cut(gymnasium.make(IDS[name], horizon=3)) == 3
    assert steps_until_cut(gymnasium.make_vec(IDS[name], 2, horizon=3)) == 3


def test_an_environment_is_made_again_from_its_specification():
    env = gymnasium.make(IDS["wet_chicken"], horizon=7)
    assert steps_until_cut(gymnasium.make(env.spec)) == 7


def test_the_reward_is_minus_the_cost():
    env = gymnasium.make(IDS["wet_chicken"])
    env.reset(seed=0)
    for _ in range(5):
        (_, y), reward, *_ = env.step(np.array([0.3, 0.9]))
        assert reward == pytest.approx(-(5.0 - y), abs=1e-5)


@pytest.mark.parametrize("name", catalogue.SYSTEMS)
def test_many_at_once(name):
    horizon = catalogue.make(name).horizon
    many = gymnasium.make_vec(IDS[name], num_envs=7)
    assert isinstance(many, SystemVectorEnv)
    observations, _ = many.reset(seed=1)
    assert observations in many.observation_space
    assert many.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP
    many.action_space.seed(0)
    for t in range(horizon + 3):
        observations, rewards, ended, cut, _ = many.step(many.action_space.sample())
        assert observations in many.observation_space
        assert rewards.shape == (7,) and not ended.any()
        assert cut.all() == (t == horizon - 1) and (rewards == 0).all() == (t == horizon)


def test_a_step_without_a_reset_does_none():
    """A reset costs dozens of steps; only those that need one pay for it."""
    calls = []
    system = catalogue.make("wet_chicken")._replace(horizon=3)
    many = SystemVectorEnv(system, 2)
    renew = many._renew
    many._renew = lambda *arguments: calls.append(1) or renew(*arguments)
    many.reset(seed=0)
    for _ in range(8):
        observations, *_ = many.step(np.full((2, 2), 0.5))
        if len(calls) and many._elapsed[0] == 0:
            np.testing.assert_array_equal(observations, 0.0)
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["wet_chicken", "industrial_benchmark"])
def test_many_do_what_gymnasiums_own_do(name):
    """Step by step, with all ways to seed and to reset, across the ends of episodes."""
    settings = {"num_envs": 2, "horizon": 4}
    many = gymnasium.make_vec(IDS[name], **settings)
    own = gymnasium.make_vec(IDS[name], vectorization_mode="sync", **settings)
    many.action_space.seed(0)

    def same_resets(seed, mask=None):
        options = {} if mask is None else {"reset_mask": np.array(mask)}
        found, expected = (env.reset(seed=seed, options=options.copy())[0] for env in (many, own))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)

    def same_steps(num):
        for _ in range(num):
            actions = many.action_space.sample()
            for found, expected in zip(many.step(actions)[:4], own.step(actions)[:4], strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)

    same_resets(5)
    same_steps(6)
    same_resets([9, 2])
    same_steps(2)
    same_resets([7, 4], [True, False])
    same_steps(6)
    same_resets([None, 3], [False, True])
    same_steps(3)
    same_resets([None, 6])
    same_steps(1)
    same_resets(None)
    same_steps(1)


def test_a_seed_decides_what_its_copy_does():
    many = SystemVectorEnv(catalogue.make("industrial_benchmark"), 3)
    (first, second, third), _ = many.reset(seed=[8, 3, 8])
    np.testing.assert_array_equal(first, third)
    assert (first != second).any()
    before, *_ = many.step(np.zeros((3, 3)))
    after, _ = many.reset(seed=[3, 3, 3], options={"reset_mask": np.array([True, False, False])})
    np.testing.assert_array_equal(after[0], second)
    np.testing.assert_array_equal(after[1:], before[1:])
    assert many._elapsed.tolist() == [0, 1, 1]


def test_observations_are_the_users_to_change():
    for env in (SystemEnv(catalogue.make("wet_chicken")), gymnasium.make_vec(IDS["wet_chicken"])):
        first, _ = env.reset(seed=0)
        first += 1.0
        second, *_ = env.step(env.action_space.sample())
        second += 1.0


@pytest.mark.parametrize(
    "mask", [[True, False], [1, 0, 0], [False] * 3, None], ids=["short", "whole", "none", "no"]
)
def test_a_wrong_mask_is_refused(mask):
    many = SystemVectorEnv(catalogue.make("wet_chicken"), 3)
    with pytest.raises(gymnasium.error.ResetNeeded, match="without a mask first"):
        many.reset(options={"reset_mask": np.array([True, False, False])})
    many.reset(seed=0)
    with pytest.raises(ValueError, match="must be 3 booleans, at least one of them true"):
        many.reset(options={"reset_mask": mask})


def test_many_have_the_distribution_of_one():
    one = SystemEnv(catalogue.make("wet_chicken"))
    many = SystemVectorEnv(catalogue.make("wet_chicken"), 4000)
    action = np.array([0.5, 0.5], np.float32)
    many.reset(seed=0)
    singles = []
    for seed in range(300):
        one.reset(seed=seed)
        singles.append([one.step(action)[0] for _ in range(2)][1])
    for _ in range(2):
        batch, *_ = many.step(np.tile(action, (4000, 1)))
    singles = np.array(singles)
    error = batch.std(axis=0) * np.sqrt(1 / 300 + 1 / 4000)
    assert (np.abs(batch.mean(axis=0) - singles.mean(axis=0)) < 4 * error + 1e-6).all()


def test_parameters_and_mistakes():
    env = gymnasium.make(IDS["wet_chicken"], length=7.0)
    assert env.observation_space.high[1] == 7.0
    with pytest.raises(ValueError, match="there is no system"):
        catalogue.make("windmill")
    bare = SystemEnv(catalogue.make("wet_chicken"))
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        bare.step(np.zeros(2))
    bare.reset(seed=0)
    with pytest.raises(ValueError, match="finite numbers"):
        bare.step(np.array([np.nan, 0.0]))
    with pytest.raises(ValueError, match="finite numbers"):
        bare.step(np.zeros(3))
    with pytest.raises(ValueError, match="one for each of 2 copies"):
        SystemVectorEnv(catalogue.make("wet_chicken"), 2).reset(seed=[1])
    with pytest.raises(ValueError, match="max_episode_steps must be -1, or 1 or more, got 0"):
        gymnasium.make_vec(IDS["wet_chicken"], 2, max_episode_steps=0)


def test_without_gymnasium_the_extra_is_named():
    code = "import sys; sys.modules['gymnasium'] = None; import twofold.envs.gym"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "twofold[rl]" in answer.stderr.splitlines()[-1]
