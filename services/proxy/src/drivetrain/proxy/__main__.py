"""`python -m drivetrain.proxy`: run the proxy with settings from file, environment and flags."""

import uvloop

from drivetrain.common.lifecycle import run
from drivetrain.common.settings import load
from drivetrain.proxy.app import serve
from drivetrain.proxy.settings import ProxySettings


def main() -> None:
    """Load the settings and serve until told to stop."""
    settings = load(ProxySettings, "proxy")
    uvloop.install()
    run("proxy", settings, lambda lifecycle: serve(lifecycle, settings))


if __name__ == "__main__":
    main()
