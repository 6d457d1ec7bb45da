"""Tables of our times beside those of other programs."""

from pathlib import Path

from paper.markdown import markdown, metrics


def tabulate_train(results: Path) -> str:
    """Time of a training update beside PyTorch's and lightning-uq-box's."""
    values = metrics("bench_train", results)
    peers = {
        "torch_eager": "PyTorch, eager",
        "torch_compile": "PyTorch, torch.compile",
        "torch_tuned": "PyTorch, torch.compile, tuned by hand",
        "lightning_uq_box": "lightning-uq-box, sequential BNN+LV",
    }
    rows = [
        [label, f"{values[f'{peer}/ms_per_update']:.2f}", f"{values[f'ratio/{peer}']:.1f}"]
        for peer, label in peers.items()
    ]
    own = ["twofold", f"{values['ms_per_update']:.2f}", "1.0"]
    matched = ["twofold, matched", f"{values['twofold_matched/ms_per_update']:.2f}", "1.0"]
    rows = [own, *rows[:-1], matched, rows[-1]]
    return markdown(["", "ms per update", "its time relative to ours"], rows)


def tabulate_entropy(results: Path) -> str:
    """Seconds for 1,000 points with 500 × 500 draws."""
    values = metrics("bench_entropy", results)
    names = {
        "default": "quadrature (default)",
        "nearest_neighbour": "nearest neighbours, k = 25",
        "scipy": "the same with scipy's k-d tree",
    }
    rows = []
    for name, label in names.items():
        found = (values.get(f"{device}/{name}/seconds") for device in ("cpu", "gpu"))
        rows.append([label, *("–" if time is None else f"{time:.1f}" for time in found)])
    return markdown(["", "two CPU cores, s", "GPU, s"], rows)


def tabulate_search(results: Path) -> str:
    """An update of the search at the paper's setting, and all 75,000 of them."""
    values = metrics("bench_search", results)
    rows = [
        ["two cores, one policy", f"{values['milliseconds/twofold']:.0f} ms", ""],
        ["the same in PyTorch", f"{values['milliseconds/torch']:.0f} ms", ""],
        ["the same, `torch.compile`", f"{values['milliseconds/torch_compiled']:.0f} ms", ""],
    ]
    for text, name in (("one GPU, one policy", "one_policy"), ("one GPU, thirty", "frontier")):
        minutes = values[f"seconds/{name}_gpu"] / 60
        rows.append([text, f"{values[f'milliseconds/{name}_gpu']:.1f} ms", f"{minutes:.1f} min"])
    return markdown(["", "an update", "75,000 updates"], rows)
