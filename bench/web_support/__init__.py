"""Supporting modules of the bench of the web pages."""
