"""Every probability and every choice from which seeds of the simulator draw.

A number between 0 and 1 is the probability of the named event, at each draw; A_STEP in a name means once per scheduler
step. A tuple holds the equally likely values of one draw; a value that occurs twice is twice as likely. A name that
ends with WEIGHTS holds the weights of alternatives, in their order.

If a value changes, each seed runs something else, and other seeds find the planted bugs.
"""

from __future__ import annotations

from spojoin.protocol.backfill import Backfill

# --- the query: drawn once a seed -------------------------------------------------------------------------------------

SELF_JOIN = 0.5
EVENT_TIME_ORDER = 0.4
#: Of queries in event-time order, how many are interval joins.
INTERVAL_JOIN = 0.25
#: Of queries in event-time order, how many have a window of time rather than of tuples.
TIME_WINDOW = 0.5
#: Of queries that output pairs, how many have a limit; and the limits in partners.
PAIR_LIMIT = 0.4
PAIR_LIMIT_RANGE = (1, 4)

PREDICATES = (1, 2, 3)
PREDICATES_WEIGHTS = (30, 45, 25)
#: Count, pairs, bitmap.
OUTPUT_WEIGHTS = (50, 30, 20)
#: Columns of whole numbers, reals, extremes, dates, timestamps.
FAMILY_WEIGHTS = (42, 38, 8, 6, 6)
WHOLE_TYPES = ("int", "int", "long", "decimal", "decimal")
#: Of columns of reals, how many are single precision, and how many doubles have infinities among their values.
SINGLE_PRECISION = 0.3
INFINITIES = 0.3
#: Of sides of comparisons that may be expressions, how many are plain columns.
PLAIN_COLUMN = 0.75

#: Event times, and values compared with them, are multiples of a tick.
LATENESS_TICKS = (0, 1, 2, 4)
INTERVAL_UPPER_TICKS = (0, 0, 1, 2, 5, 12, 40)
INTERVAL_LOWER_TICKS = (0, 0, 1, 3, 12, 40)
#: A window's slide, in ticks or tuples, and its length in slides.
SLIDE = (1, 1, 2, 3, 4, 5, 8, 12)
LENGTH_SLIDES = (1, 1, 2, 3, 4, 6, 20)

#: Of statements, how many have left rows that ask; and of these, how many ask at close.
ASKS = 0.6
AT_CLOSE = 0.75
FULL = 0.3
#: Pairs, LEFT, SEMI or ANTI, GROUP BY, the best partners.
ASKED_WEIGHTS = (15, 20, 20, 30, 15)
DESCENDING = 0.5
HAVING = 0.3
#: Of counts, how many count all pairs.
COUNTS_ALL = 0.5

# --- sizes: drawn once a seed -----------------------------------------------------------------------------------------

BATCH_TUPLES = (1, 2, 3, 4, 6, 8, 12)
WORKERS = (1, 1, 2, 3, 4)
WORKERS_MAX = 4
#: The columns of the workers' grid, by the routers of a seed in turn; 0: all workers are one row.
COLUMNS = (0, 1, 1, 2, 2, 3)
#: How many routers in turn have columns of their own.
COLUMNS_DRAWN = (1, 1, 2, 3)
#: How many joiners divide each predicate's frames, and how many logical ANDs divide all frames.
MUTABLE_ROWS = (1, 1, 2, 3)
LOGICAL_ANDS = (1, 1, 2, 3)
INTAKES = (0, 0, 1, 2, 3)
#: How many worlds have answerers at first.
ANSWERERS = 0.15
#: How many worlds with several workers lose one for good; workers and columns there, and the step of the loss.
LOSS = 0.15
ROWS_WITH_LOSS = ((2, 1), (3, 1), (4, 1), (4, 2))
LOST_AT_STEPS = (0, 50, 200, 500, 1_000, 2_000)
#: Of queries with an equality, how many have columns by key; the columns then; and of their routers, how many write it.
COLUMNS_BY_KEY = 0.6
KEY_COLUMNS = (1, 2, 2, 2, 3)
ROUTER_BY_KEY = 0.85
FRAME_TUPLES_BY_KEY = (1, 1, 2, 3)
BATCH_TUPLES_BY_KEY = (1, 2, 3)
FRAME_TUPLES = (1, 2, 3, 5, 8, 16)
BATCH_FRAMES = (2, 4, 16, 256)
HANDOVER_FRAMES = (1, 2, 3, 5)
LINGER_MS = (0, 1, 5, 50)
CREDITS_FRAMES = (1, 2, 4, 64)

# --- faults: drawn once a seed, then once a scheduler step if the name has A_STEP ------------------------------

NO_FAULTS = 0.1
#: Records pass through the wire codec.
ENCODED = 0.2
CRASH_A_STEP = (0.0, 0.002, 0.005, 0.02)
#: Of crashes, how many leave the process running beside its replacement.
ZOMBIE = (0.0, 0.3, 0.7)
#: Of appends, how many happen twice.
TWICE = (0.0, 0.02, 0.2)
STALL_A_STEP = (0.0, 0.005, 0.02)
#: Of result positions given to a process, how many are old ones.
STALE = (0.0, 0.3)
#: Of a router's restarts, how many change the worker count.
RESCALE = (0.0, 0.5, 1.0)
#: How often a controller changes the worker count.
WORKER_COUNTS = (0, 0, 1, 2, 4)
#: The most crashes, and the most stalls.
FAULTS_MAX = (2, 6, 16)

# --- input rows -------------------------------------------------------------------------------------------------------

PARTITIONS = (1, 1, 2, 3)
#: The relative rate at which a partition gets messages.
PARTITION_WEIGHTS = (1.0, 1.0, 1.0, 0.1)
ROWS_A_MESSAGE = (1, 1, 1, 2, 4)
#: Few rows, so that faults affect nearly every row.
ROWS = (8, 10, 12, 14, 18, 24, 32, 64)
#: Of messages in event-time order, how many promise silence and hold no rows.
HEARTBEAT = 0.04
#: Of streams, how many have text keys.
TEXT_KEYS = 0.4
#: Drawn once a seed: of values, how many are null or NaN; of times, a quarter as many.
DIRT = (0.0, 0.0, 0.03, 0.1)
NULL_TIMES_OF_DIRT = 1 / 4
#: Of such values in a column of reals, how many are NaN.
NAN = 0.5

CLOCK_START_TICKS = (-3, 0, 3_400_000_000)
#: Drawn once a seed: of rows, how many come a tick after the previous row; and of those ticks, how many are jumps.
PACE = (0.1, 0.4, 0.9)
JUMPS = (0.0, 0.02)
JUMP_TICKS = 30
#: The lag of a partition's times behind the clock.
SKEW_TICKS = (0, 0, 2)
#: Of rows, how many may run back in time, and how far.
RUNS_BACK = 0.3
BACK_TICKS = (0, 0, 1, 2, 5)

# --- the scheduler ----------------------------------------------------------------------------------------------------

STORM_STEPS = (500, 2_000, 4_000, 8_000)
#: Milliseconds that pass in a step of the storm.
STEP_MS = (0, 0, 0, 1, 3)
#: A pending append lands when its process has a turn; in the storm, the seed draws the probability.
LANDING = (0.1, 0.5, 0.5)
LANDING_AT_REST = 0.5
#: In each step of the storm, appends of a process that is gone land, and an input gets a message.
GHOST_LANDS_A_STEP = 0.1
INPUT_GROWS_A_STEP = 0.3
#: A process gets a result position or the time instead of a record; and of those, how many get the time.
HEARS_OR_TICKS = 0.2
TICKS = 0.5
#: A router reads its users' inputs rather than the log, if it could do either.
FEEDS = 0.5
MESSAGES_AT_ONCE = (1, 1, 2, 5)
#: All actions of a record.
ALL = 1 << 30
#: How many of a record's actions are carried out at once: when it is read, in each later turn, and when catching up.
ACTIONS_AT_FIRST = (0, 1, ALL, ALL, ALL)
ACTIONS_LATER = (1, 2, ALL)
ACTIONS_OF_CATCHING_UP = (0, ALL)

# --- the storm's faults -----------------------------------------------------------------------------------------------

#: A crash hits a process with pending appends, or the router, if there is one.
CRASH_HITS_SENDER = 0.5
RESTART_STEPS = (0, 5, 50, 400)
STALL_STEPS = (50, 300, 1_000)
ADVICE_A_STEP = 0.002
#: Codes that are reported as hot.
HOT_CODES = (-2, 0, 1, 300)
#: Where columns are by key, a plan says of a key of the latest frames that it is hot, or no longer is.
PLAN_A_STEP = 0.04
PLAN_FRAMES = 4
WORKER_COUNT_A_STEP = 0.005
#: Workers beyond the worker count are removed: in any step, and immediately when it changes.
DISMISSAL_A_STEP = 0.01
DISMISSAL_AT_ONCE = 0.5
#: A request for a worker count follows one that is too large, and precedes a repeated or outdated one.
REQUEST_TOO_LARGE = 0.2
REQUEST_REPEATED = 0.2

# --- a query that is replaced -----------------------------------------------------------------------------------------

REPLACEMENTS = (1, 2)
BACKFILLS = (Backfill.WINDOW, Backfill.WINDOW, Backfill.NONE, Backfill.EARLIEST)
#: Of queries that follow one in event-time order, how many keep that order.
KEEPS_EVENT_TIME_ORDER = 0.8
#: When the next generation is requested, in steps from the start.
REPLACED_AT_STEPS = (0, 40, 80, 120, 160, 240, 400, 1_000)
#: A process notices that its generation is over, when it has a turn.
NOTICES = 0.02
#: The generation after the next is requested while the next fills its windows, some steps after it took over.
REPLACED_WHILE_FILLING = 0.5
REPLACED_WHILE_FILLING_STEPS = (0, 20, 100)
TAKEOVER_START_STEPS = (0, 5, 50)

# --- statements: filters, residual conditions, texts, NULL, columns of results ----------------------------------------

#: Equalities of texts in a statement: none, one, two.
TEXT_EQUALITIES_WEIGHTS = (40, 45, 15)
#: Of statements, how many have the longest window, so that a restarted service needs batches.
LONG_WINDOW = 0.5
#: Of statements, how many have many different texts.
MANY_TEXTS = 0.3
#: Of those equalities, how many compare columns of the same name, are equalities, and ignore case.
SAME_TEXT_COLUMN = 0.7
TEXT_EQUAL = 0.8
IGNORES_CASE = 0.2
#: Conditions of a side's filter: none, one, two; and of self joins, how many have one filter for both sides.
FILTERS_WEIGHTS = (50, 40, 10)
SAME_FILTER = 0.3
NULL_TEST = 0.2
NOT_NULL = 0.6
AMONG = 0.2
#: Of statements, how many have a residual condition; and of those, how many use row numbers, or order texts.
RESIDUAL = 0.35
SEQ_RESIDUAL = 0.2
TEXT_ORDER_RESIDUAL = 0.2
#: Of statements, how many select columns; of those columns, how many are numbers or keys, and how many are computed.
SELECT_LIST = 0.45
SELECTS_NUMBER = 0.3
SELECTS_COMPUTED = 0.25

# --- packings: drawn once a seed, by a separate generator -----------------------------------------------------------

#: All apart, all together, groups.
PACKING_WEIGHTS = (40, 30, 30)
#: Roles with the same number share a process.
PACKING_GROUPS = (1, 2, 3)
WORKERS_INSIDE = (1, 1, 2)
#: How often a world moves to another packing, and at which steps.
REPACKS = (0, 0, 0, 1, 2)
REPACKED_AT_STEPS = (100, 500, 1_000, 2_000, 4_000)

# --- sinks: drawn once a seed, by a separate generator ----------------------------------------------------------------

SINKS = (1, 2, 2, 3)
#: How often the keys of a select list's rows divide the results.
RESULTS_BY_KEY = 0.5

# --- standbys: drawn once a seed, by a separate generator -----------------------------------------------------------

STANDBYS = 0.4
PATIENCE_MS = (0, 4, 20, 100, 500, 2_000)

# --- the broker: drawn once a seed, by a separate generator ---------------------------------------------------------

#: The roles that write in transactions: router and sink, the sink, the router, none.
TRANSACTIONAL_WEIGHTS = (35, 35, 10, 20)
#: How often the log is out of reach, and how often a process stands still, and for how many steps.
OUTAGES = (0, 1, 1, 3)
OUTAGE_A_STEP = 0.005
OUTAGE_STEPS = (20, 50, 300)
FREEZES = (0, 1, 4)
FREEZE_A_STEP = 0.01
FREEZE_STEPS = (20, 50, 300, 1_000)
#: Of outages, how many affect only transactions; and how often an instance that writes in them stands still meanwhile.
OUTAGE_OF_COMMITS = 0.6
OUTAGE_OF_COMMITS_STEPS = (500, 1_000, 2_000)
FREEZES_FOR_COMMITS = 0.6
FREEZE_FOR_COMMITS_STEPS = (100, 300, 500)
#: A process fails to open its writer, and ends.
OPENING_FAILS = 0.05
#: During such an outage: turns of processes that write in transactions; and of these, how many get the time or a result
#: position.
TURN_OF_THE_HELD = 0.7
HELD_TICKS = 0.5
#: During such an outage, patience runs out in this many steps.
HELD_STEPS_OF_PATIENCE = 20

#: In a step of a world with a table, the next version comes if the previous one is in the log, and if it isn't.
VERSION_A_STEP = 0.02
VERSION_TOO_SOON = 0.001
#: Of these steps, in how many rows come; otherwise they come as often as in other worlds.
ROWS_WITH_VERSION = 0.3
#: In a step in which the log ends with part of a version, the router dies.
CRASH_IN_VERSION = 0.2
