"""The scikit-learn face: fit, predict, split, save; many fits at once; large tables."""
