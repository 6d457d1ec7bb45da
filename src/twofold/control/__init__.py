"""Policies from roll-outs of a model: roll-outs, the risk-sensitive criterion, its minimisation."""
