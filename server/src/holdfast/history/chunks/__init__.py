"""The chunk route: read only the metadata chunks that an archive does not share with its predecessor."""
