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


def test_without_gymnasium_the_extra_is_named():
    code = "import sys; sys.modules['gymnasium'] = None; import twofold.envs.gym"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "twofold[rl]" in answer.stderr.splitlines()[-1]
