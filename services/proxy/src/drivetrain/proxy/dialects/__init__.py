"""The APIs that harnesses speak, one module each; all of them lead to the same turn."""
