"""Query files for tests of the language and of plans."""
# ruff: noqa: E501 - people write long comments

TRIPS = """\
name: farther-in-less-time
streams:
  trips:
    schema: {distance: double, air_time: double}
    time: time_hour          # event time; an ISO timestamp or integer milliseconds. Not needed for a count window in arrival order
    key: flight_id           # opaque, given back with results; default: the position in its input
sql: |
  SELECT * FROM trips AS l JOIN trips AS r
  ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '10K' ON '100K')
order: arrival               # arrival | event_time
output: pairs                # count | pairs | bitmap
limit: 1000                  # optional, for pairs: the most partners of a probe, the earliest ones; what was cut is flagged and counted
"""

TYPED = """\
name: typed
streams:
  a:
    schema:
      i: int
      g: long
      f: float
      d: double
      p: decimal(10,2)
      q: decimal(18,4)
      day: date
      at: timestamp
    time: at
  b:
    schema: {i: int, g: long, f: float, d: double, p: decimal(10,2), q: decimal(18,4), day: date, at: timestamp}
    time: at
sql: |
  SELECT * FROM a AS l JOIN b AS r
  ON PREDICATE
  WINDOW AS (SLIDE INTERVAL '10' ON '100')
order: event_time
"""


def typed(predicate: str) -> str:
    """A cross join of two streams with a column of every type; the predicate is on line 19."""
    return TYPED.replace("PREDICATE", predicate)
