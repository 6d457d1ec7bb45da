"""Inference methods: one file each, a registry, and the loop that runs them all."""

from twofold.inference.method import METHODS, resolve_method

__all__ = ["METHODS", "resolve_method"]
