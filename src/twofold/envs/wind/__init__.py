"""A wind turbine in turbulent wind: the NREL 5-MW machine and the task of improving its control."""
