"""Pointing a person's harness at the proxy, and back."""
