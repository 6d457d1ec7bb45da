"""The scikit-learn interface: fit, predict, split, save; many fits at once; large tables."""
