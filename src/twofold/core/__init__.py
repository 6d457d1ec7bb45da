"""Foundations for all packages: array types, numerics, files, resuming, devices, jobs. Import its
modules one by one (``twofold.core.naming``), so that none loads the dependencies of another."""

__all__: list[str] = []
