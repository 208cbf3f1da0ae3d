"""The web UI's files: built from `web/`, part of the wheel, served by the service itself."""
