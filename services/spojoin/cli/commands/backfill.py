"""`spojoin backfill`: a query over a history, by Spark."""

from __future__ import annotations

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import BackfillOptions, with_options


@with_options
def backfill(options: BackfillOptions) -> None:
    """Answer a query over a history by Spark, exactly as its services would have.

    Results have the columns of the query's results topic and come in its order, file by file. With `--until`
    the results of a running stream continue those of the history, without a gap and without duplicates; the page
    services/spojoin/spark/README.md explains how. The exit status is 0, 2 for a mistake, 130 after Ctrl-C.

    Examples:

        spojoin backfill query.yaml --from trips/ --order-by seq --until 1000000 -o matches/

        spojoin backfill query.yaml --from trips/ --order-by seq --until began --bootstrap kafka:9092 -o matches/

        spojoin backfill cross.yaml --from orders=s3a://lake/orders --from quotes=s3a://lake/quotes -o s3a://lake/pairs

        spojoin backfill query.yaml --from trips.csv --format csv --order-by seq --explain
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.blocked_imports import let_in

        let_in("pandas")  # without which Spark hands no rows to Python
        from spojoin.cli.backfill import answer

        answer(options)
