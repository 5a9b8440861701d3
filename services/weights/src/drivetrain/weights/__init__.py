"""The weights service: each new version is rolled into every replica, proved, and promoted or held."""
