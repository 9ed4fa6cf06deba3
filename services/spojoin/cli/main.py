"""The command `spojoin`. Imports stand inside the commands, so that help comes at once."""

# A command's arguments are its options, and its docstring is what --help shows, blank lines and all.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import spojoin
from spojoin.cli.errors import one_sentence
from spojoin.cli.extras import COMMAND
from spojoin.cli.version import version_option
from spojoin.protocol.backfill import Backfill

app = typer.Typer(
    name="spojoin",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Exact stream inequality joins: `<`, `<=`, `>`, `>=`, `=`, `!=` and bands on sliding windows.

A query is one YAML file. Run it over files in this process with `spojoin run`, or as services over Kafka with
`spojoin up`. See it work on real flights with `spojoin demo`.""",
)


@app.callback()
def first(
    context: typer.Context, version: Annotated[bool, version_option("spojoin", spojoin.__version__)] = False
) -> None:
    """Runs before every command."""
    import os

    from spojoin.cli.container import prepare

    COMMAND.set(context.invoked_subcommand)
    prepare(os.environ)


QueryFile = Annotated[Path, typer.Argument(help="The query's YAML file.", show_default=False)]
Redis = Annotated[
    str, typer.Option(envvar=["SPOJOIN_REDIS_URL", "REDIS_URL"], metavar="URL", help="Where services report.")
]
Bootstrap = Annotated[str, typer.Option(envvar="SPOJOIN_BOOTSTRAP_SERVERS", metavar="HOST:PORT", help="Kafka.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback where something fails.")]


@app.command()
def run(
    query: QueryFile,
    inputs: Annotated[
        list[str],
        typer.Option("--input", "-i", metavar="STREAM=FILE", help="CSV, JSON lines or Parquet; one for each stream."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON lines or Parquet, by extension.")],
    rejects: Annotated[
        Path | None, typer.Option(help="Where refused rows go, with the reason; JSON lines or Parquet.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Where the figures of the run go, as JSON; what the layout cost each worker is among them."),
    ] = None,
    max_rejects: Annotated[
        str,
        typer.Option(
            metavar="SHARE|ROWS",
            help="Status 1 where more rows than that are refused: a share, 0.5 or 50%, or a number. Results are kept.",
        ),
    ] = "50%",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="In how many parts the window is searched; default the layout's number, or 1."),
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="How the work is spread over workers; `spojoin layouts` lists the ways.")
    ] = None,
    layout_option: Annotated[
        list[str] | None,
        typer.Option("--layout-option", metavar="NAME=VALUE", help="An option of --layout; repeatable."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="By what method the window is searched; `spojoin methods` lists them.")
    ] = None,
    method_option: Annotated[
        list[str] | None,
        typer.Option("--method-option", metavar="NAME=VALUE", help="An option of --method; repeatable."),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="Show no progress and no summary; refused rows are still counted on stderr."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Join files in this process: no broker, constant memory.

    One file is a stream in its order; two files are merged by event time. Outputs appear whole at the end, or not at
    all. The status is 0; 1 if too many rows were refused; 2 for a mistake; 130 after Ctrl-C.

    Examples:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl

        spojoin run query.yaml -i trips=trips.parquet -o matches.parquet --rejects refused.jsonl --report report.json

        spojoin run cross.yaml -i orders=orders.csv -i quotes=quotes.parquet -o pairs.parquet
    """
    with one_sentence(is_debug=debug):
        from spojoin.cli.progress import run_progress
        from spojoin.cli.refused import refused_line, too_many_refused
        from spojoin.cli.summary import show_run
        from spojoin.embedded.reject_limit import parse_reject_limit
        from spojoin.embedded.run import run as run_files
        from spojoin.local.supervise import ending_on_signals
        from spojoin.published.layouts.catalog import chosen_layout
        from spojoin.published.methods.catalog import chosen
        from spojoin.query.load import load_query

        parsed = chosen(load_query(query), method, method_option or ())
        parsed = chosen_layout(parsed, layout, workers, layout_option or ())
        paths, limit = _stream_files(inputs), parse_reject_limit(max_rejects)
        with ending_on_signals(), run_progress(parsed.name, is_quiet=quiet) as progress:
            told = run_files(
                parsed,
                paths,
                output,
                rejects=rejects,
                report=report,
                workers=workers,
                query_file=query,
                progress=progress,
            )
        if not quiet:
            show_run(told, output)
        if line := refused_line(told, parsed):
            typer.echo(f"spojoin: {line}", err=True)
        if sentence := too_many_refused(told, limit, output, rejects):
            typer.echo(f"spojoin: {sentence}", err=True)
            raise typer.Exit(1)


@app.command()
def methods() -> None:
    """The methods by which `spojoin run` can search a window, their options and their sources.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --method scan
    """
    from rich.console import Console

    from spojoin.cli.methods import methods_table

    Console().print(methods_table())


@app.command()
def layouts() -> None:
    """The layouts by which the work can be spread over workers, their options and their sources.

    `spojoin run --report` measures each of them, `batch` too, by the same figures: how even the work is, messages and
    bytes, memory, latency and completeness.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --layout scale_join --workers 4
    """
    from rich.console import Console

    from spojoin.cli.methods import layouts_table

    Console().print(layouts_table())


@app.command()
def validate(
    query: QueryFile,
    deployed: Annotated[
        bool, typer.Option("--deployed", help="Check it as the services would run it, and their SPOJOIN_ variables.")
    ] = False,
    running: Annotated[
        bool, typer.Option("--running", help="Ask Kafka, too, whether another query is served under its name.")
    ] = False,
    partials: Annotated[
        int | None, typer.Option(min=1, help="Partitions of the topic of partials, where another makes it.")
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option(help="A name that another read in the query: its own, or a stream's; repeatable."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Check a query; say nothing but its name if it is right, and the line, the name and what was expected if not.

    Examples:

        spojoin validate query.yaml

        SPOJOIN_WORKERS=4 spojoin validate query.yaml --deployed

        SPOJOIN_BOOTSTRAP_SERVERS=kafka:9092 spojoin validate query.yaml --deployed --running
    """
    with one_sentence(is_debug=debug):
        from spojoin.cli.deployed import check_names, check_partials, check_running, load_deployed
        from spojoin.query.load import load_query

        loaded = load_deployed(query) if deployed else load_query(query)
        check_partials(loaded, partials)
        check_names(loaded, named or ())
        if running and (unknown := check_running(loaded, query)):
            typer.echo(f"{loaded.name}: {unknown}", err=True)
        typer.echo(f"{loaded.name}: the query is valid")


@app.command()
def explain(
    query: QueryFile,
    sample: Annotated[
        list[str] | None,
        typer.Option(
            "--sample", "-s", metavar="[STREAM=]FILE", help="Measure selectivities on the first rows of a file."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows to sample of each file.")] = 10_000,
    workers: Annotated[int, typer.Option(min=1, help="PO-Join workers to plan for.")] = 2,
    debug: Debug = False,
) -> None:
    """Show how a query will run: predicates, indexes, batches, window bounds, topics and state in bytes.

    Examples:

        spojoin explain query.yaml

        spojoin explain query.yaml --sample trips.csv

        spojoin explain cross.yaml -s orders=orders.csv -s quotes=quotes.parquet
    """
    with one_sentence(is_debug=debug):
        from rich.console import Console

        from spojoin.cli.samples import read_samples
        from spojoin.explain.footprint import SetupSizes
        from spojoin.explain.plan import explain as plan
        from spojoin.explain.plan import render
        from spojoin.query.load import load_query

        parsed = load_query(query)
        samples = read_samples(parsed, sample, rows) if sample else None
        render(plan(parsed, samples, SetupSizes(workers=workers)), Console())


@app.command()
def demo(
    report: Annotated[Path, typer.Option(help="The folder for report.json, report.html and logs.")] = Path("report"),
    only: Annotated[list[str] | None, typer.Option(help="Only this query of loadgen/queries; may be repeated.")] = None,
    debug: Debug = False,
) -> None:
    """Watch real flights stream from PySpark through Kafka and all services, and see the result proved complete.

    Needs Java 17 and the extras: pip install 'spojoin[local,spark]'. The first time it fetches Kafka's jars.

    Example:

        spojoin demo --report report
    """
    with one_sentence(is_debug=debug):
        from rich.console import Console

        from loadgen.demo.main import demo as play

        raise typer.Exit(play(report, Console(), only or ()))


@app.command()
def up(
    query: QueryFile,
    workers: Annotated[
        int | None, typer.Option(min=1, help="PO-Join workers; default the number of the query's layout, or 2.")
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of input topics that are made.")] = 1,
    bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A Kafka that runs already.")] = None,
    redis: Annotated[str | None, typer.Option(metavar="URL", help="A Redis that runs already.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the Kafka that is started.")] = None,
    results: Annotated[str, typer.Option(metavar="frames|json", help="Form of the results topic.")] = "frames",
    logs: Annotated[Path | None, typer.Option(help="Keep the services' logs in this folder.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of another query served there under this name.")
    ] = False,
    backfill: Annotated[
        Backfill, typer.Option(help="With --replace: how far back the inputs are read again to fill the windows.")
    ] = Backfill.WINDOW,
    joiners: Annotated[int | None, typer.Option(min=1, help="Mutable joiners; default one a predicate.")] = None,
    debug: Debug = False,
) -> None:
    """Serve a query on this machine until Ctrl-C: Kafka, Redis and every service, each a process of its own.

    Then push rows as JSON, CSV lines or Arrow batches to the topics that it names, from any program or with
    `spojoin send`, and read on with `spojoin results`.

    Examples:

        spojoin up query.yaml

        spojoin up query.yaml --workers 4 --bootstrap kafka:9092 --redis redis://redis:6379/0

        spojoin up changed.yaml --replace --bootstrap kafka:9092 --redis redis://redis:6379/0
    """
    with one_sentence(is_debug=debug):
        from rich.console import Console

        from spojoin.cli.up import UpOptions, serve

        options = UpOptions(workers, partitions, bootstrap, redis, port, results, logs, replace, backfill, joiners)
        serve(query, options, Console())


@app.command()
def topics(
    query: QueryFile,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Make the input topics as well, with so many partitions each.")
    ] = None,
    workers_max: Annotated[int | None, typer.Option(min=1, help="The most PO-Join workers that there will be.")] = None,
    debug: Debug = False,
) -> None:
    """Make a query's topics where the services may not, and where a bigger query needs it add partitions.

    What concerns Kafka is told by the services' variables or their settings file: SPOJOIN_KAFKA and its like.

    Example:

        spojoin topics query.yaml --bootstrap kafka:9092 --workers-max 8
    """
    with one_sentence(is_debug=debug):
        from spojoin.cli.topics import make_topics
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(
            query_file=query, bootstrap_servers=bootstrap, workers=workers_max, workers_max=workers_max
        )
        for name, count in make_topics(load_query(query), settings, partitions).items():
            typer.echo(f"{name}: {count} partition{'' if count == 1 else 's'}")


@app.command()
def send(
    query: QueryFile,
    inputs: Annotated[
        list[str], typer.Option("--input", "-i", metavar="STREAM=FILE", help="CSV, JSON lines or Parquet.")
    ],
    bootstrap: Bootstrap = "127.0.0.1:9092",
    debug: Debug = False,
) -> None:
    """Push the rows of files to a query's input topics, as Arrow batches.

    Example:

        spojoin send query.yaml -i trips=trips.csv --bootstrap 127.0.0.1:9092
    """
    with one_sentence(is_debug=debug):
        from spojoin.cli.topics import send_files
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(query_file=query, bootstrap_servers=bootstrap)
        sent = send_files(load_query(query), _stream_files(inputs), settings)
        typer.echo(", ".join(f"{rows:,} rows to {topic}" for topic, rows in sent.items()))


@app.command()
def results(
    query: QueryFile,
    bootstrap: Bootstrap = "127.0.0.1:9092",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end, until Ctrl-C.")] = False,
    debug: Debug = False,
) -> None:
    """Print a query's results from its topic, as JSON lines.

    Example:

        spojoin results query.yaml --follow
    """
    with one_sentence(is_debug=debug):
        import sys

        from spojoin.cli.topics import print_results
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(query_file=query, bootstrap_servers=bootstrap)
        print_results(load_query(query), settings, sys.stdout.buffer, is_following=follow)


@app.command()
def kafka(
    port: Annotated[int | None, typer.Option(help="Kafka's port; default any free one.")] = None,
    redis_port: Annotated[int | None, typer.Option(help="Redis' port; default any free one.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Keep Kafka's data in this folder.")] = None,
    debug: Debug = False,
) -> None:
    """Run a Kafka broker of one node and a Redis on this machine until Ctrl-C.

    Example:

        spojoin kafka --port 9092 --redis-port 6379
    """
    with one_sentence(is_debug=debug):
        from rich.console import Console

        from spojoin.cli.up import run_cluster

        run_cluster(port, redis_port, folder, Console())


@app.command()
def service(
    role: Annotated[
        str, typer.Argument(help="router, predictor, mutable, permutation, pojoin, logical-and, sink or controller.")
    ],
    settings: Annotated[Path | None, typer.Option(help="A .yaml, .toml or .env file of settings.")] = None,
    debug: Debug = False,
) -> None:
    """Run one service until SIGTERM; it is told what to do by SPOJOIN_ variables or a settings file.

    Examples:

        SPOJOIN_QUERY_FILE=query.yaml SPOJOIN_BOOTSTRAP_SERVERS=kafka:9092 spojoin service router

        SPOJOIN_WORKER=1 spojoin service pojoin --settings settings.yaml
    """
    with one_sentence(is_debug=debug):
        from spojoin.errors import ConfigurationError
        from spojoin.protocol.topology import Role
        from spojoin.runtime.service import run as serve
        from spojoin.runtime.settings import load_settings

        if role not in [each.value for each in Role]:
            raise ConfigurationError(f"there is no service {role!r}; expected one of {', '.join(Role)}")
        raise typer.Exit(serve(Role(role), load_settings(settings)))


@app.command()
def status(
    query: Annotated[Path | None, typer.Argument(help="A query's YAML file, to see all about it.")] = None,
    redis: Redis = "redis://127.0.0.1:6379/0",
    bootstrap: Bootstrap = "127.0.0.1:9092",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C; so it is at a terminal.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print once; so it is where there is no terminal.")] = False,
    debug: Debug = False,
) -> None:
    """Show all services of all queries: state, lag, tuples, matches and latency.

    With a query also its flow with rates, how full its window is, its latest results and its dead letters.

    Examples:

        spojoin status --redis redis://127.0.0.1:6379/0

        spojoin status query.yaml --watch --redis redis://127.0.0.1:6379/0 --bootstrap 127.0.0.1:9092
    """
    with one_sentence(is_debug=debug):
        from rich.console import Console

        from spojoin.cli.live import show_query, show_status
        from spojoin.errors import ConfigurationError
        from spojoin.runtime.settings import load_settings

        if watch and once:
            raise ConfigurationError("--watch goes on and --once does not: give one of them")
        console = Console()
        is_once = once or not (watch or console.is_terminal)
        if query is None:
            # A table of all queries: the settings tell the store's user and password, and no query is read.
            settings = load_settings(query_file=Path(), redis_url=redis)
            show_status(settings.store_url() or redis, console, is_once=is_once)
        else:
            show_query(query, redis, bootstrap, console, is_once=is_once)


@app.command()
def page(
    query: QueryFile,
    redis: Redis = "redis://127.0.0.1:6379/0",
    bootstrap: Bootstrap = "127.0.0.1:9092",
    host: Annotated[str | None, typer.Option(help="Where to serve it; default this machine alone.")] = None,
    port: Annotated[int | None, typer.Option(help="Its port; default 8080, 0 takes any free one.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="PO-Join workers that there should be.")] = None,
    debug: Debug = False,
) -> None:
    """Serve a page about a query until Ctrl-C: its flow with rates and lag, window, latest results, dead letters.

    Example:

        spojoin page query.yaml --redis redis://127.0.0.1:6379/0 --bootstrap 127.0.0.1:9092
    """
    with one_sentence(is_debug=debug):
        from spojoin.page.service import run as serve
        from spojoin.page.settings import load_page_settings

        settings = load_page_settings(
            host=host, port=port, query_file=query, redis_url=redis, bootstrap_servers=bootstrap, workers=workers
        )
        raise typer.Exit(serve(settings, lambda address: typer.echo(f"the page is at {address}")))


@app.command()
def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 2_000,
    start: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Replay this seed only.")] = None,
    mutant: Annotated[str | None, typer.Option(help="Plant a known bug; it must be found.")] = None,
    generations: Annotated[
        bool, typer.Option("--generations", help="Replace the query by others while it is served.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default one a core.")] = None,
    debug: Debug = False,
) -> None:
    """Run the real services' logic through seeded faults, and compare every output with the oracle's.

    Examples:

        spojoin simulate --seeds 2000

        spojoin simulate --seed 1234

        spojoin simulate --mutant no-epoch-barrier

        spojoin simulate --generations --seeds 500
    """
    with one_sentence(is_debug=debug):
        from spojoin.simulate.runner import simulate as run_seeds

        raise typer.Exit(run_seeds(seeds, start, jobs=jobs, mutant=mutant, seed=seed, generations=generations))


@app.command()
def fetch(debug: Debug = False) -> None:
    """Fetch Kafka's jars and Spark's Kafka connector from Maven Central, once.

    Example:

        spojoin fetch
    """
    with one_sentence(is_debug=debug):
        from loadgen.load.spark import start
        from spojoin.local.jars import kafka_jars

        typer.echo(f"Kafka: {kafka_jars(progress=typer.echo)}")
        start(progress=typer.echo).stop()
        typer.echo("Spark: the Kafka connector is there")


def _stream_files(inputs: list[str]) -> dict[str, Path]:
    from spojoin.errors import ConfigurationError

    paths: dict[str, Path] = {}
    for text in inputs:
        stream, equals, path = text.partition("=")
        if not (stream and equals and path):
            raise ConfigurationError(f"--input {text}: expected STREAM=FILE, such as trips=trips.csv")
        if stream in paths:
            raise ConfigurationError(f"--input {text}: the stream {stream!r} has a file already, {paths[stream]}")
        paths[stream] = Path(path)
    return paths


if __name__ == "__main__":
    app()
