"""The delivery queue, and a file per kind of destination."""
