"""``LearnedPolicy``: a policy that acts on a window of raw observations, its file, and its export.

A small ReLU network of standardised features whose actions cannot leave their bounds:

    a = middle + half · tanh(network(features))

An action with a rate r changes by at most r per step, within its bounds; a switch is at its upper
bound if the network's output is at least 0, and at its lower bound otherwise.

The export is one ONNX graph from raw windows to actions, in single precision. The action is NaN
where ``LearnedPolicy.act`` raises an error. Actions agree to a few millionths of their range,
except where a "log1p_logit" column lies within the last thousandth below its upper bound: there the
rounding of the logarithm dominates.
"""

import json
from dataclasses import astuple, dataclass, field
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import persistence
from twofold.core.arrays import Array, Float, Key
from twofold.core.content import build, shorten, take
from twofold.core.numerics import Standardizer
from twofold.model import network
from twofold.model.network import RowLayer
from twofold.plant.columns import EDGE, Transform
from twofold.plant.embedding import Embedding
from twofold.plant.log import Window

FIRST_ACTIONS = 0.1
DTYPE = jnp.float32
# Fields of the embedding and the network, and the search settings, stored in a policy file.
SEEN = ("observations", "actions", "lags", "action_lags", "transforms", "limited")
MOVES = ("rates", "switches")
SIZES = ("hidden", "low", "high", *MOVES)
FOUND = ("epistemic_weight", "aleatoric_weight", "seed", "notes")
OPSET, IR_VERSION = 17, 8  # from 2022, supported by onnxruntime 1.12 and later
UNITS = "those of the log; column names state them if those of the log did"
DESCRIPTION = (
    "A control policy, found by twofold with epistemic weight {policy.epistemic_weight:g} and "
    "aleatoric weight {policy.aleatoric_weight:g}. It takes the last {policy.history} raw "
    "observations{past} and gives the action to apply next. Units are {units}. The action is NaN "
    "if an input is NaN, infinite, or outside the domain of its logarithm: then use a safe action."
)


@dataclass(frozen=True)
class PolicyNetwork:
    """Shapes, and the bounds of the actions. ``rates`` are the largest changes of the actions per
    step (the whole range for those without a limit), and ``switches`` the indices of on/off
    actions."""

    features: int
    hidden: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    rates: tuple[float, ...] = ()
    switches: tuple[int, ...] = ()

    def __post_init__(self):
        if len(self.low) != len(self.high) or not np.all(np.less(self.low, self.high)):
            raise ValueError(f"actions need bounds with low < high, got {self.low} and {self.high}")
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"each hidden layer needs at least 1 unit, got {self.hidden}")
        if self.rates and (len(self.rates) != len(self.low) or not np.greater(self.rates, 0).all()):
            raise ValueError(f"each action needs a rate above 0, got {self.rates}")
        if not set(self.switches) <= set(range(len(self.low))):
            raise ValueError(f"switches must be indices of actions, got {self.switches}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer sizes, from the features to the actions."""
        return (self.features, *self.hidden, len(self.low))


def init(key: Key, shape: PolicyNetwork) -> Float[Array, "P"]:
    """He initialisation: weights of variance 2 / inputs, biases 0. The last layer is scaled by a
    tenth, so that actions start near the middle, where tanh is not saturated."""
    pairs = list(pairwise(shape.sizes))
    factors = [1.0] * (len(pairs) - 1) + [FIRST_ACTIONS]
    keys, parts = jax.random.split(key, len(pairs)), []
    for own, factor, (fan_in, fan_out) in zip(keys, factors, pairs, strict=True):
        scale = jnp.sqrt(2.0 / fan_in) * factor
        kernel = scale * jax.random.normal(own, (fan_out * fan_in,), DTYPE)
        parts += [kernel.astype(DTYPE), jnp.zeros(fan_out, DTYPE)]
    return jnp.concatenate(parts)


def layers_of(shape: PolicyNetwork, weights: Float[Array, "S P"]) -> tuple[RowLayer, ...]:
    """The layers of S policies, for standardised features."""
    return network.for_rows(network.unflatten(shape.sizes, weights))


def act(
    shape: PolicyNetwork, layers: tuple[RowLayer, ...], features: Float[Array, "*M S B F"]
) -> Float[Array, "*M S B A"]:
    """Actions of each of S policies at its own points, before rate limits; the gradient of a switch
    is that of a continuous action (straight-through)."""
    outputs = network.apply_rows(layers, features)
    low, high = (jnp.asarray(bound, features.dtype) for bound in (shape.low, shape.high))
    actions = 0.5 * (low + high) + 0.5 * (high - low) * jnp.tanh(outputs)
    if not shape.switches:
        return actions
    ends = jnp.where(outputs < 0.0, low, high)
    chosen = np.isin(np.arange(len(shape.low)), shape.switches)
    return actions + jnp.where(chosen, jax.lax.stop_gradient(ends - actions), 0.0)


def limit_rates(
    shape: PolicyNetwork, actions: Float[Array, "*batch A"], previous: Float[Array, "*batch A"]
) -> Float[Array, "*batch A"]:
    """Limit the change from the previous actions to the rates, within the bounds."""
    rates = jnp.asarray(shape.rates, actions.dtype)
    return clip_actions(shape, jnp.clip(actions, previous - rates, previous + rates))


def clip_actions(shape: PolicyNetwork, actions: Float[Array, "*batch A"]) -> Array:
    return jnp.clip(actions, *(jnp.asarray(end, actions.dtype) for end in (shape.low, shape.high)))


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """A policy with all that it needs to act: its embedding, standardisation and weights.
    ``epistemic_weight`` (β), ``aleatoric_weight`` (γ) and ``seed`` are those of its search."""

    embedding: Embedding
    shape: PolicyNetwork
    standardizer: Standardizer
    weights: np.ndarray
    epistemic_weight: float = 0.0
    aleatoric_weight: float = 0.0
    seed: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        embedding = self.embedding
        counts = len(embedding.lags), len(embedding.transforms), len(embedding.action_lags)
        columns = len(embedding.observations), len(embedding.observations), len(embedding.actions)
        if counts != columns or min((0, *embedding.lags, *embedding.action_lags)) < 0:
            raise ValueError("a policy needs lags and a transform for each of its columns")
        features = sum(embedding.past_lags)
        if features == 0 or not embedding.actions:
            raise ValueError("a policy needs at least one input and one action")
        sizes, expected = self.shape.sizes, (features, *self.shape.hidden, len(embedding.actions))
        if sizes != expected:
            raise ValueError(f"the embedding needs a network of sizes {expected}, got {sizes}")
        for name, values, count in (
            ("weights", self.weights, network.num_weights(sizes)),
            ("the features' mean", self.standardizer.mean, features),
            ("the features' scale", self.standardizer.scale, features),
        ):
            if np.shape(values) != (count,) or not np.isfinite(values).all():
                raise ValueError(f"{name} must be {count} finite numbers, got {shorten(values)}")
        if not np.all(self.standardizer.scale > 0):
            raise ValueError(f"the features' scale must be positive, got {self.standardizer.scale}")

    @property
    def risk_weights(self) -> tuple[float, float]:
        """β and γ."""
        return self.epistemic_weight, self.aleatoric_weight

    @property
    def history(self) -> int:
        """Number of past observations it needs."""
        return self.embedding.history

    @property
    def sees_actions(self) -> bool:
        """Whether it needs past actions."""
        return bool(self.shape.rates) or any(lags > 1 for lags in self.embedding.action_lags)

    def act(self, observations: Any, actions: Any = None) -> np.ndarray:
        """The action after observations ``[H, D]``, newest last, with the actions ``[H - 1, A]``
        between them (may be omitted if the policy does not use them).

        Of longer arrays the end is used. The values that the policy uses must be finite.
        """
        history, names = self.history, self.embedding.observations
        seen = np.asarray(observations, np.float32)
        if seen.ndim != 2 or seen.shape[1] != len(names) or len(seen) < history:
            raise ValueError(
                f"expected at least {history} observations of {len(names)} columns "
                f"({', '.join(names)}), got shape {seen.shape}"
            )
        shape = len(seen) - 1, len(self.embedding.actions)
        past = np.asarray(np.zeros(shape) if actions is None else actions, np.float32)
        if past.shape != shape or (actions is None and self.sees_actions):
            names = self.embedding.actions
            raise ValueError(
                f"expected the {shape[0]} actions between the observations, of {shape[1]} columns "
                f"({', '.join(names)}), got {'none' if actions is None else f'shape {past.shape}'}"
            )
        window = Window(seen[-history:], past[len(past) - history + 1 :])
        _check_inputs(self.embedding, window, self.shape.rates)
        action = np.asarray(_act(self.embedding, self.shape, self.leaves, window), float)
        # Rounding in single precision may exceed the bounds in the last digit.
        return np.clip(action, self.shape.low, self.shape.high)

    def export_onnx(self, path: persistence.FilePath) -> None:
        """Write the policy as an ONNX file, for a computer with onnxruntime but without twofold.

        Inputs are ``observations`` ``[batch, H, D]`` and, if the policy uses them, ``actions``
        ``[batch, H - 1, A]``; the output is ``action`` ``[batch, A]``, all in raw units.
        """
        write_onnx(path, self)

    @property
    def leaves(self) -> tuple[Array, Standardizer]:
        """Weights and the standardisation of the features, for compiled programs."""
        both = self.weights, self.standardizer
        return jax.tree.map(partial(jnp.asarray, dtype=DTYPE), both)

    def save(self, path: persistence.FilePath) -> None:
        """Write the policy to one file; ``load_policy`` reads it back."""
        parts = (self.embedding, SEEN), (self.shape, SIZES), (self, FOUND)
        metadata = {name: getattr(part, name) for part, names in parts for name in names}
        metadata["transforms"] = [astuple(transform) for transform in self.embedding.transforms]
        arrays = {"weights": self.weights, **self.standardizer._asdict()}
        persistence.write(path, "policy", arrays, metadata)


def load_policy(path: persistence.FilePath) -> LearnedPolicy:
    """Read a policy that ``LearnedPolicy.save`` wrote; it acts exactly as before."""
    return persistence.load(path, "policy", _unpack)


def _unpack(stored: persistence.Stored) -> LearnedPolicy:
    arrays, metadata = stored
    # Fields missing from older files have defaults with the old behaviour.
    seen, sizes = ({k: metadata[k] for k in names if k in metadata} for names in (SEEN, SIZES))
    parts = [dict(zip(("kind", "low", "high"), one, strict=True)) for one in seen["transforms"]]
    seen["transforms"] = [build(Transform, one, "transforms") for one in parts]
    mean, scale, weights = (take(arrays, name, (None,)) for name in ("mean", "scale", "weights"))
    content = {
        "embedding": build(Embedding, seen | {"targets": (), "deltas": ()}, "policy"),
        "shape": build(PolicyNetwork, sizes | {"features": len(mean)}, "network"),
        "standardizer": Standardizer(mean, scale),
        "weights": weights,
    }
    return build(LearnedPolicy, content | {name: metadata[name] for name in FOUND}, "policy")


def _check_inputs(embedding: Embedding, window: Window, rates: tuple[float, ...]) -> None:
    """Refuse non-finite values among those that the policy uses."""
    seen = np.array(embedding.past_lags)
    if rates:
        seen[len(embedding.observations) :] = np.maximum(seen[len(embedding.observations) :], 1)
    names = *embedding.observations, *embedding.actions
    columns = *window.observations.T, *window.actions.T
    transforms = *embedding.transforms, *[Transform()] * len(embedding.actions)
    for name, column, lags, transform in zip(names, columns, seen, transforms, strict=True):
        values = column[len(column) - lags :]
        if not np.isfinite(values).all():
            raise ValueError(f"{name!r} must be finite, got {values}; fill gaps before acting")
        if transform.kind.startswith("log1p") and (values <= -1).any():
            raise ValueError(
                f"{name!r} must be above -1 for its transform log(1 + value), got {values}; "
                "correct it before acting"
            )


def act_on(
    embedding: Embedding, shape: PolicyNetwork, leaves: tuple[Array, Standardizer], window: Window
) -> Float[Array, "A"]:
    """The action for one window: standardised features, network, rate limit."""
    weights, standardizer = leaves
    features = standardizer.transform(embedding.features(window))
    # Full precision: a GPU would otherwise round factors, and give other actions than a CPU.
    with jax.default_matmul_precision("highest"):
        layers = layers_of(shape, weights[None])
        action = act(shape, layers, features[None, None])[0, 0]
    return limit_rates(shape, action, window.actions[-1]) if shape.rates else action


_act = jax.jit(act_on, static_argnums=(0, 1))


def write_onnx(path: persistence.FilePath, policy: LearnedPolicy) -> None:
    """Write a policy as a checked ONNX file with documentation."""
    try:
        import onnx
    except ImportError as error:
        message = "exporting a policy needs onnx, which is not installed; "
        raise ImportError(f"{message}pip install 'twofold[onnx]'") from error
    seen, shape, history = policy.embedding, policy.shape, policy.history
    ends = zip(seen.actions, shape.low, shape.high, strict=True)
    bounds = ", ".join(f"{name} from {low:g} to {high:g}" for name, low, high in ends)
    rows, width = f"the last {history} observations, newest last", len(seen.actions)
    between = "the actions between the observations, newest last"

    def describe(name: str, sizes: list[int], doc: str, columns: str) -> Any:
        kind, doc = onnx.TensorProto.FLOAT, f"{doc}; columns: {columns}"
        return onnx.helper.make_tensor_value_info(name, kind, ["batch", *sizes], doc)

    sizes = [history, len(seen.observations)]
    observations = describe("observations", sizes, rows, ", ".join(seen.observations))
    actions = describe("actions", [history - 1, width], between, bounds)
    action = describe("action", [width], "to apply next", bounds)
    inputs = [observations, actions] if policy.sees_actions else [observations]
    graph = _Graph(onnx)
    _add_policy(graph, policy)
    past = " and the actions between them" if policy.sees_actions else ""
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "policy", inputs, [action], graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="twofold",
        producer_version=persistence.LIBRARY_VERSION,
        doc_string=DESCRIPTION.format(policy=policy, past=past, units=UNITS),
    )
    of_plant = {"observations": seen.observations, "actions": seen.actions, "history": history}
    bounds_of = {"action_low": shape.low, "action_high": shape.high, "units": UNITS}
    bounds_of |= {name: getattr(shape, name) for name in MOVES if getattr(shape, name)}
    of_search = {name: getattr(policy, name) for name in FOUND}
    properties = (of_plant | bounds_of | of_search).items()
    onnx.helper.set_model_props(model, {name: json.dumps(value) for name, value in properties})
    onnx.checker.check_model(model, full_check=True)
    persistence.write_bytes(path, model.SerializeToString())


class _Graph:
    """Builder of an ONNX graph; ``doc`` documents the nodes added next."""

    def __init__(self, onnx: ModuleType):
        self.onnx, self.doc = onnx, ""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, operator: str, *inputs: Any, output: str = "", **more: Any) -> str:
        """Add an operation on outputs of other nodes (by name) and on constants (single precision,
        unless arrays of another dtype); returns the name of its output."""
        names = list(inputs)
        for place, values in enumerate(inputs):
            if not isinstance(values, str):
                names[place] = f"constant_{len(self.constants)}"
                array = values if isinstance(values, np.ndarray) else np.asarray(values, np.float32)
                self.constants.append(self.onnx.numpy_helper.from_array(array, names[place]))
        name = f"{operator.lower()}_{len(self.nodes)}"
        made = self.onnx.helper.make_node(operator, names, [output or name], name, self.doc, **more)
        self.nodes.append(made)
        return output or name


def _add_policy(graph: _Graph, policy: LearnedPolicy) -> None:
    """Add ``act_on`` to a graph."""
    weights, units = policy.leaves
    values, features = _add_features(graph, policy)
    graph.doc = "standardise"
    outputs = graph.node("Div", graph.node("Sub", features, units.mean), units.scale)
    for index, (kernel, bias) in enumerate(network.unflatten(policy.shape.sizes, weights[None])):
        graph.doc = f"layer {index + 1}"
        inputs = graph.node("Relu", outputs) if index else outputs
        outputs = graph.node("Gemm", inputs, kernel[0], bias[0], transB=1)
    graph.doc = "bounds of the actions"
    low, high = (np.asarray(bound, np.float32) for bound in (policy.shape.low, policy.shape.high))
    spread = graph.node("Mul", graph.node("Tanh", outputs), 0.5 * (high - low))
    action = graph.node("Add", spread, 0.5 * (low + high))
    if policy.shape.switches:
        graph.doc = "switches"
        off = graph.node("Less", outputs, 0.0)
        switch = np.isin(np.arange(len(low)), policy.shape.switches)
        action = graph.node("Where", switch, graph.node("Where", off, low, high), action)
    if policy.shape.rates:
        graph.doc = "rates of the actions"
        flat, width = graph.node("Flatten", "actions", axis=1), len(low)
        places = np.arange((policy.history - 2) * width, (policy.history - 1) * width)
        previous = graph.node("Gather", flat, places.astype(np.int64), axis=1)
        rates = np.asarray(policy.shape.rates, np.float32)
        reach = graph.node("Sub", previous, rates), graph.node("Add", previous, rates)
        for least, most in (reach, (low, high)):
            action = graph.node("Min", graph.node("Max", action, least), most)
        values = graph.node("Concat", values, previous, axis=1)
    # [batch, 1]: 0, or NaN where a value is not finite, regardless of clipping.
    graph.doc = "NaN where there is no action"
    nothing = graph.node("Mul", values, 0.0)
    zero_or_nan = graph.node("ReduceSum", nothing, np.array([1], np.int64), keepdims=1)
    graph.node("Add", action, zero_or_nan, output="action")


def _add_features(graph: _Graph, policy: LearnedPolicy) -> tuple[str, str]:
    """Add ``Embedding.features`` to a graph; its inputs before and after the logit."""
    own, history = policy.embedding, policy.history
    seen, done = len(own.observations), len(own.actions)
    observed = np.arange(history * seen).reshape(history, seen)
    applied = observed.size + np.arange((history - 1) * done).reshape(history - 1, done)
    columns = zip((*observed.T, *applied.T), own.past_lags, strict=True)
    cells = np.concatenate([column[len(column) - lags :] for column, lags in columns])
    transforms = np.repeat([*own.transforms, *[Transform()] * done], own.past_lags)
    logs = np.array([one.kind.startswith("log1p") for one in transforms])
    logits = np.array([one.kind.endswith("logit") for one in transforms])
    graph.doc = "what the policy sees"
    inputs = ["observations", "actions"][: 1 + policy.sees_actions]
    flat = graph.node("Concat", *(graph.node("Flatten", one, axis=1) for one in inputs), axis=1)
    values = graph.node("Gather", flat, cells.astype(np.int64), axis=1)
    if logs.any():
        # ONNX has no log1p; in single precision, 1 + value would lose the digits of small values.
        double = graph.node("Cast", values, to=graph.onnx.TensorProto.DOUBLE)
        found = graph.node("Log", graph.node("Add", double, np.array(1.0)))
        found = graph.node("Cast", found, to=graph.onnx.TensorProto.FLOAT)
        values = graph.node("Where", logs, found, values)
    if not logits.any():
        return values, values
    # Position between the transform's bounds, kept off the ends.
    low, high = (np.array([getattr(one, end) for one in transforms]) for end in ("low", "high"))
    above = graph.node("Sub", values, low.astype(np.float32))
    # A product, as XLA replaces division by a constant: near the upper bound, rounding of the
    # position is large compared with its distance to 1.
    reciprocal = np.float32(1.0) / (high - low).astype(np.float32)
    place = graph.node("Clip", graph.node("Mul", above, reciprocal), EDGE, 1.0 - EDGE)
    rest = graph.node("Log", graph.node("Sub", 1.0, place))
    logit = graph.node("Sub", graph.node("Log", place), rest)
    return values, graph.node("Where", logits, logit, values)
