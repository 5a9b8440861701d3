"""`python -m drivetrain.cli` is the `drivetrain` command."""

from drivetrain.cli.app import main

if __name__ == "__main__":
    main()
