"""The program that `spark-submit` starts: the command `spojoin`, with the arguments that follow this file."""

from spojoin.cli.main import main

main()
