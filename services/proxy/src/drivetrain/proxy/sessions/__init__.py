"""The sessions of all proxy replicas: local cache, shared index, idle deadlines, and their rebuild from the stream."""

from drivetrain.proxy.sessions.history import History
from drivetrain.proxy.sessions.idle import Closer
from drivetrain.proxy.sessions.index import Index, connect
from drivetrain.proxy.sessions.rebuild import Rebuilder
from drivetrain.proxy.sessions.sessions import Sessions

__all__ = ["Closer", "History", "Index", "Rebuilder", "Sessions", "connect"]
