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
    """Write a policy as an ONNX file."""
    persistence.write_bytes(path, onnx_model(policy).SerializeToString())


def onnx_model(policy: LearnedPolicy) -> Any:
    """The policy as a checked ``onnx.ModelProto``, with what an engineer should know of it."""
    onnx = _onnx()
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
    return model


class _Graph:
    """A graph in the making; its methods give the names of what they add."""

    def __init__(self, onnx: ModuleType):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(
        self, operator: str, *inputs: str, doc: str = "", output: str = "", **attributes: Any
    ) -> str:
        """One operation."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        output = output or name
        made = self.onnx.helper.make_node(operator, inputs, [output], name, doc, **attributes)
        self.nodes.append(made)
        return output

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Numbers that the graph holds."""
        name = f"constant_{len(self.constants)}"
        array = np.asarray(values, dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name


def _act(graph: _Graph, policy: LearnedPolicy) -> None:
    """``policy.act_on`` as a graph."""
    weights, mean, scale = policy.leaves
    values, features = _columns(graph, policy)
    centred = graph.node("Sub", features, graph.constant(mean), doc="standardise")
    outputs = graph.node("Div", centred, graph.constant(scale), doc="standardise")
    for index, layer in enumerate(network.unflatten(policy.shape.sizes, weights[None])):
        inputs = graph.node("Relu", outputs) if index else outputs
        kernel, bias = graph.constant(layer.kernel[0]), graph.constant(layer.bias[0])
        outputs = graph.node("Gemm", inputs, kernel, bias, transB=1, doc=f"layer {index + 1}")
    low, high = (np.asarray(bound, np.float32) for bound in (policy.shape.low, policy.shape.high))
    half, middle = graph.constant(0.5 * (high - low)), graph.constant(0.5 * (low + high))
    spread = graph.node("Mul", graph.node("Tanh", outputs), half, doc="bounds of the actions")
    action = graph.node("Add", spread, middle, doc="bounds of the actions")
    graph.node("Add", action, _zero_or_nan(graph, values), output="action")


def _columns(graph: _Graph, policy: LearnedPolicy) -> tuple[str, str]:
    """What the policy sees, ``Embedding.features``, before and after values are clipped."""
    embedding, history = policy.embedding, policy.history
    values, features = [], []
    for index, (name, lags) in enumerate(zip(embedding.observations, embedding.lags, strict=True)):
        if lags:
            rows = range(history - lags, history)
            seen = _gather(graph, "observations", name, rows, index, len(embedding.observations))
            transform = embedding.transforms[index]
            if transform.kind.startswith("log1p"):
                seen = _log1p(graph, seen, name)
            values.append(seen)
            if transform.kind.endswith("logit"):
                seen = _logit(graph, seen, transform, name)
            features.append(seen)
    for index, (name, lags) in enumerate(
        zip(embedding.actions, embedding.action_lags, strict=True)
    ):
        if lags > 1:
            rows = range(history - lags, history - 1)
            seen = _gather(graph, "actions", name, rows, index, len(embedding.actions))
            values.append(seen)
            features.append(seen)
    return graph.node("Concat", *values, axis=1), graph.node("Concat", *features, axis=1)


def _gather(graph: _Graph, source: str, name: str, rows: range, index: int, columns: int) -> str:
    """One column's values ``[batch, lags]``, oldest first."""
    flat = graph.node("Flatten", source, axis=1)
    places = graph.constant([row * columns + index for row in rows], np.int64)
    return graph.node("Gather", flat, places, axis=1, doc=name)


def _log1p(graph: _Graph, values: str, doc: str) -> str:
    """ONNX has no log1p, and 1 + value would lose a small value's digits in single precision."""
    double = graph.node("Cast", values, to=graph.onnx.TensorProto.DOUBLE, doc=doc)
    above = graph.node("Add", double, graph.constant(1.0, np.float64), doc=doc)
    found = graph.node("Log", above, doc=doc)
    return graph.node("Cast", found, to=graph.onnx.TensorProto.FLOAT, doc=doc)


def _logit(graph: _Graph, values: str, transform: Transform, doc: str) -> str:
    """Of the place between the transform's bounds, kept off its ends."""
    above = graph.node("Sub", values, graph.constant(transform.low), doc=doc)
    # A product, as XLA makes of a quotient by a constant: near the upper bound the last digit
    # of the place is much of its distance to 1.
    reciprocal = np.float32(1.0) / np.float32(transform.high - transform.low)
    place = graph.node("Mul", above, graph.constant(reciprocal), doc=doc)
    ends = graph.constant(EDGE), graph.constant(1.0 - EDGE)
    place = graph.node("Clip", place, *ends, doc=doc)
    rest = graph.node("Sub", graph.constant(1.0), place, doc=doc)
    logs = graph.node("Log", place, doc=doc), graph.node("Log", rest, doc=doc)
    return graph.node("Sub", *logs, doc=doc)


def _zero_or_nan(graph: _Graph, values: str) -> str:
    """``[batch, 1]``: 0, or NaN where a value is not finite, whatever clipping makes of it."""
    nothing = graph.node("Mul", values, graph.constant(0.0))
    return graph.node("ReduceSum", nothing, graph.constant([1], np.int64), keepdims=1)


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
        "epistemic_weight": policy.epistemic_weight,
        "aleatoric_weight": policy.aleatoric_weight,
        "seed": policy.seed,
        "notes": policy.notes,
    }
    return {name: json.dumps(value) for name, value in properties.items()}


def _onnx() -> ModuleType:
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "exporting a policy needs onnx, which is not installed; pip install 'twofold[onnx]'"
        ) from error
    return onnx
