"""Inference methods: one file each, a registry, and the loop that runs them all."""

from twofold.inference.registry import METHODS, resolve_method

__all__ = ["METHODS", "resolve_method"]
