"""The web UI's files: built from `web/`, included in the wheel, served by the service itself."""
