"""`python -m drivetrain.proxy`: run the proxy with settings from file, environment and flags."""

import gc

import uvloop

from drivetrain.common.lifecycle import Lifecycle, run
from drivetrain.common.settings import load
from drivetrain.proxy.app import serve
from drivetrain.proxy.settings import ProxySettings


def main() -> None:
    """Load the settings and serve until told to stop."""
    settings = load(ProxySettings, "proxy")
    uvloop.install()

    async def start(lifecycle: Lifecycle) -> None:
        await serve(lifecycle, settings)
        settle()

    run("proxy", settings, start)


def settle() -> None:
    """What was loaded at the start stays for good: let the garbage collector leave it alone. Going through all of it
    would hold every stream up for a fifth of a second; what replies leave behind has few cycles and can wait."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


if __name__ == "__main__":
    main()
