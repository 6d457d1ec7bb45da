"""Many small updates as one CUDA graph, several learners side by side in it.

The updates of offline reinforcement learning are hundreds of kernels of microseconds: started one
by one they take ten times as long. Without a GPU they are made one after another.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from torch.optim import Optimizer

UNROLLED = 10
Update = Callable[[int], Any]


def device() -> str:
    """Where learners compute."""
    return "cuda:0" if torch.cuda.is_available() else "cpu"


def unroll(updates: Sequence[Update]) -> Callable[[], None]:
    """A call that makes ``UNROLLED`` updates of each learner; each is given its number in them."""
    if not torch.cuda.is_available():
        return lambda: run(updates)
    streams = [torch.cuda.Stream() for _ in updates]
    for own, stream in zip(updates, streams, strict=True):
        with torch.cuda.stream(stream):
            run([own])
    torch.cuda.synchronize()
    graph, done = torch.cuda.CUDAGraph(), torch.cuda.Event(blocking=True)
    with torch.cuda.graph(graph), capturable():
        main = torch.cuda.current_stream()
        for own, stream in zip(updates, streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                run([own])
        for stream in streams:
            main.wait_stream(stream)

    def replay() -> None:
        graph.replay()
        done.record()
        done.synchronize()

    return replay


def run(updates: Sequence[Update]) -> None:
    """``UNROLLED`` updates of each."""
    for own in updates:
        for number in range(UNROLLED):
            own(number)


def prepare(optimisers: Sequence[Optimizer]) -> None:
    """Let optimisers be part of a graph: their counts are kept on the GPU."""
    if torch.cuda.is_available():
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group.update(capturable=True, fused=True, foreach=False)


def capturable() -> ExitStack:
    """While it is entered constants are made on the GPU, and not copied to it."""
    stack = ExitStack()
    stack.enter_context(mock.patch.object(torch, "tensor", _make))
    return stack


def _make(value: float, **given: Any) -> torch.Tensor:
    return torch.full((), value, **given)
