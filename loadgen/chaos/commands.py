"""`loadgen chaos`, `loadgen silence` and `loadgen soak`."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

import typer

from loadgen.chaos.options import ChaosOptions, SilenceOptions, SoakOptions
from loadgen.errors import one_sentence
from spojoin.cli.options import with_options


@with_options
def chaos(asked: ChaosOptions) -> None:
    """Break things by seed and schedule while rows flow, and compare every result with the join's definition.

    Kinds: *delete* a pod (locally SIGTERM), *kill* (SIGKILL) and *pause* (SIGSTOP for seconds) a service, restart the
    *broker*, flush *redis*. A round strikes each service once. Finally a nested loop recomputes all probes over the
    same rows, and a SHA-256 stands for the whole output. The services survive a fault if they answer all rows sent
    until its end. The exit status is 1 if a result differs or the services don't survive a fault.

    The command starts services on this machine. With `where: kubernetes` in FILE, it strikes pods.

    Examples:

        loadgen chaos --workload q3 --seed 7 --duration 2m

        loadgen chaos campaign.yaml --seed 7 --dry-run

        loadgen chaos '{workload: q3, where: kubernetes, pods: {namespace: joins, release: q3}}'
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.chaos.chaos_file import ChaosFile
        from loadgen.load.files import example, read

        if asked.schema:
            typer.echo(example(ChaosFile, workload="q3"), nl=False)
            return
        from loadgen.chaos.campaign_session import break_things, show_schedule

        given = {name: getattr(asked, name) for name in ("workload", "seed", "rate", "duration", "kinds")}
        file = read(ChaosFile, asked.file, given)
        if asked.dry_run:
            show_schedule(file)
            return
        raise typer.Exit(break_things(file))


@with_options
def silence(asked: SilenceOptions) -> None:
    """Strike services and servers while rows flow, and measure how long results are silent.

    Starts Kafka, Redis and all services of a self join on this machine, and fills its window. Then strikes one service
    after the other, each when all are well again: always the instance that speaks. Finally restarts Kafka, and kills
    Redis for good. The silence of a fault is the longest time between two results around it, seen by a reader of
    committed records. The silence of Kafka's restart excludes the time until a new client finds the results again. The
    exit status is 1 if a result is missing, doubled, out of order or wrong.

    Examples:

        loadgen silence --kills 100 --stops 50 --restarts 3

        loadgen silence --packing apart --no-standbys --window 100000 --kills 18 --stops 0
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.chaos.silence_session import measure

        raise typer.Exit(measure(asked))


@with_options
def soak(asked: SoakOptions) -> None:
    """Break and change everything at random for a long time, and recompute every result as it comes.

    Starts Kafka, Redis and the services on this machine. Under load it kills and stops services, restarts Kafka and
    Redis, changes the number of workers, moves between packings and grids, and switches standbys on and off. The seed
    chooses all this. The exit status is 1 if a result is missing, doubled, out of order or wrong, if services are
    stuck, if memory grows after the first tenth, or if a topic exceeds its share of the disk.

    Examples:

        loadgen soak --minutes 60

        loadgen soak --minutes 5 --seed 7 --kinds kill,stop,move
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.chaos.soak_session import soak_services

        raise typer.Exit(soak_services(asked))
