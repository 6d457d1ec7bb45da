"""Simulated systems (pure ``reset`` and ``step``), toy problems, and Gymnasium environments."""
