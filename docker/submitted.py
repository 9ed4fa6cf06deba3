"""What `spark-submit` starts where Spark is a cluster's: the command, with the arguments that follow this file."""

from spojoin.cli.main import main

main()
