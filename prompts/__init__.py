"""The rubric as data; installed as `rcp_irx.prompts`."""
