"""`python -m spojoin` is the command `spojoin`."""

from spojoin.cli.main import main

if __name__ == "__main__":
    main()
