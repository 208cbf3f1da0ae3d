"""Archives as folders of a read-only network drive (WebDAV)."""
