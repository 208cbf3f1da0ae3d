"""Archives as folders of a network drive: WebDAV, for reading only."""
