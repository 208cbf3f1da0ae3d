"""The delivery queue, and one file per kind of destination."""
