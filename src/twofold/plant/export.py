"""A policy as one ONNX graph: raw windows in, actions out, so that a plant needs onnxruntime alone.

Transforms, standardisation, network and bounds are in the graph, in single precision as in
``LearnedPolicy.act``. Where that refuses a value the policy sees (NaN, infinite, without a
logarithm), the graph gives NaN as the action: NaN means that there is none. Actions agree to a few
parts in a million of their range, less well only where a column seen as "log1p_logit" lies in the
last thousandth below its upper bound: there the last digit of the logarithm decides.
"""

import json
from types import ModuleType
from typing import Any

import numpy as np

from twofold.core import persistence
from twofold.model import network
from twofold.plant.columns import EDGE, Transform

LearnedPolicy = Any  # of twofold.plant.policy, which imports this module
OPSET, IR_VERSION = 17, 8  # of 2022, which every onnxruntime from 1.12 on runs
UNITS = "those of the log that the policy was found from; names say them where the log's names did"


def write_onnx(path: persistence.FilePath, policy: LearnedPolicy) -> None:
    """Write a policy as a checked ONNX file, with what an engineer should know of it."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "exporting a policy needs onnx, which is not installed; pip install 'twofold[onnx]'"
        ) from error
    graph = _Graph(onnx)
    _act(graph, policy)
    inputs, output = _interface(onnx, policy)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "policy", inputs, [output], graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="twofold",
        producer_version=persistence.LIBRARY_VERSION,
        doc_string=_description(policy),
    )
    onnx.helper.set_model_props(model, _properties(policy))
    onnx.checker.check_model(model, full_check=True)
    persistence.write_bytes(path, model.SerializeToString())


class _Graph:
    """A graph in the making."""

    def __init__(self, onnx: ModuleType):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(
        self, operator: str, *inputs: Any, doc: str = "", output: str = "", **more: Any
    ) -> str:
        """Add one operation on what others give, by their names, and on numbers, which are in
        single precision unless they are arrays of another kind; its own name."""
        names = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        name = f"{operator.lower()}_{len(self.nodes)}"
        output = output or name
        self.nodes.append(self.onnx.helper.make_node(operator, names, [output], name, doc, **more))
        return output

    def _constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        array = values if isinstance(values, np.ndarray) else np.asarray(values, np.float32)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name


def _act(graph: _Graph, policy: LearnedPolicy) -> None:
    """``policy.act_on`` as a graph."""
    weights, mean, scale = policy.leaves
    values, features = _columns(graph, policy)
    centred = graph.node("Sub", features, mean, doc="standardise")
    outputs = graph.node("Div", centred, scale, doc="standardise")
    for index, (kernel, bias) in enumerate(network.unflatten(policy.shape.sizes, weights[None])):
        inputs = graph.node("Relu", outputs) if index else outputs
        doc = f"layer {index + 1}"
        outputs = graph.node("Gemm", inputs, kernel[0], bias[0], transB=1, doc=doc)
    low, high = (np.asarray(bound, np.float32) for bound in (policy.shape.low, policy.shape.high))
    doc, outputs = "bounds of the actions", graph.node("Tanh", outputs)
    spread = graph.node("Mul", outputs, 0.5 * (high - low), doc=doc)
    action = graph.node("Add", spread, 0.5 * (low + high), doc=doc)
    # [batch, 1]: 0, or NaN where a value is not finite, whatever clipping makes of it.
    nothing = graph.node("Mul", values, 0.0)
    zero_or_nan = graph.node("ReduceSum", nothing, np.array([1], np.int64), keepdims=1)
    graph.node("Add", action, zero_or_nan, output="action")


def _columns(graph: _Graph, policy: LearnedPolicy) -> tuple[str, str]:
    """What the policy sees, ``Embedding.features``, before and after values are clipped."""
    embedding, history = policy.embedding, policy.history
    seen, done = len(embedding.observations), len(embedding.actions)
    places = [("observations", history, seen, index) for index in range(seen)]
    places += [("actions", history - 1, done, index) for index in range(done)]
    transforms = *embedding.transforms, *[Transform()] * done
    names = *embedding.observations, *embedding.actions
    values, features = [], []
    for (source, rows, width, index), doc, transform, lags in zip(
        places, names, transforms, embedding.past_lags, strict=True
    ):
        if lags:
            flat = graph.node("Flatten", source, axis=1)
            own = np.arange(rows - lags, rows, dtype=np.int64) * width + index
            column = graph.node("Gather", flat, own, axis=1, doc=doc)
            if transform.kind.startswith("log1p"):
                column = _log1p(graph, column, doc)
            values.append(column)
            if transform.kind.endswith("logit"):
                column = _logit(graph, column, transform, doc)
            features.append(column)
    return graph.node("Concat", *values, axis=1), graph.node("Concat", *features, axis=1)


def _log1p(graph: _Graph, values: str, doc: str) -> str:
    """ONNX has no log1p, and 1 + value would lose a small value's digits in single precision."""
    double = graph.node("Cast", values, to=graph.onnx.TensorProto.DOUBLE, doc=doc)
    found = graph.node("Log", graph.node("Add", double, np.array(1.0), doc=doc), doc=doc)
    return graph.node("Cast", found, to=graph.onnx.TensorProto.FLOAT, doc=doc)


def _logit(graph: _Graph, values: str, transform: Transform, doc: str) -> str:
    """Of the place between the transform's bounds, kept off its ends."""
    above = graph.node("Sub", values, transform.low, doc=doc)
    # A product, as XLA makes of a quotient by a constant: near the upper bound the last digit
    # of the place is much of its distance to 1.
    reciprocal = np.float32(1.0) / np.float32(transform.high - transform.low)
    place = graph.node("Mul", above, reciprocal, doc=doc)
    place = graph.node("Clip", place, EDGE, 1.0 - EDGE, doc=doc)
    rest = graph.node("Sub", 1.0, place, doc=doc)
    logs = graph.node("Log", place, doc=doc), graph.node("Log", rest, doc=doc)
    return graph.node("Sub", *logs, doc=doc)


def _interface(onnx: ModuleType, policy: LearnedPolicy) -> tuple[list[Any], Any]:
    """What goes in and what comes out."""

    def tensor(name: str, rows: list[int], columns: tuple[str, ...], doc: str) -> Any:
        sizes, kind = ["batch", *rows, len(columns)], onnx.TensorProto.FLOAT
        return onnx.helper.make_tensor_value_info(name, kind, sizes, doc)

    embedding, history = policy.embedding, policy.history
    columns = ", ".join(embedding.observations)
    doc = f"the last {history} observations, newest last; columns: {columns}"
    inputs = [tensor("observations", [history], embedding.observations, doc)]
    ends = zip(embedding.actions, policy.shape.low, policy.shape.high, strict=True)
    bounds = ", ".join(f"{name} from {low:g} to {high:g}" for name, low, high in ends)
    if policy.sees_actions:
        doc = f"the actions between the observations, newest last; columns: {bounds}"
        inputs.append(tensor("actions", [history - 1], embedding.actions, doc))
    return inputs, tensor("action", [], embedding.actions, f"to apply next; columns: {bounds}")


def _description(policy: LearnedPolicy) -> str:
    past = " and the actions between them" if policy.sees_actions else ""
    return (
        f"A control policy, found by twofold with epistemic weight {policy.epistemic_weight:g} and "
        f"aleatoric weight {policy.aleatoric_weight:g}. It takes the last {policy.history} raw "
        f"observations{past} and gives the action to apply next. Units are {UNITS}. The action is "
        "NaN if a value that the policy sees is NaN, infinite, or without the logarithm that it "
        "is seen through: then keep to a safe action."
    )


def _properties(policy: LearnedPolicy) -> dict[str, str]:
    """The same for programs, each value as JSON."""
    properties = {
        "observations": policy.embedding.observations,
        "actions": policy.embedding.actions,
        "action_low": policy.shape.low,
        "action_high": policy.shape.high,
        "history": policy.history,
        "units": UNITS,
    }
    found = "epistemic_weight", "aleatoric_weight", "seed", "notes"
    properties |= {name: getattr(policy, name) for name in found}
    return {name: json.dumps(value) for name, value in properties.items()}
