"""A small cluster for tests: an API server, the controllers that it takes for Jobs, and nodes that run their pods."""
