"""The agent: a small program on a managed machine that runs the service's jobs there."""

AGENT_VERSION = "0.1.0"
