"""A wind turbine in turbulent wind: the NREL 5-MW turbine and the task of improving its control."""
