"""Supporting modules of the fleet bench."""
