"""The HTTP side: routes, listeners, streams and errors, the same for every dialect."""
