"""Inference methods: one file per method, a registry, and the common training loop."""

from twofold.inference.method import METHODS, resolve_method

__all__ = ["METHODS", "resolve_method"]
