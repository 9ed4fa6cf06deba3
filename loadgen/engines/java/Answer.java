import java.util.Properties;

/** A probe's answer: the state that its partners give, 0 without partners, and its share of the total. */
record Answer(String gathered, String counted, long below, long[] c) {
    static Answer of(Properties read, long[] c) {
        return new Answer(
                read.getProperty("gathered"), read.getProperty("counted"), Long.parseLong(read.getProperty("below")), c);
    }

    /** In SQL, a pair's share of its probe's state: a row's number, a value, or a one. */
    String value() {
        return isLatest() ? "s.seq" : isCount() ? "1" : "s.c";
    }

    /** The state in SQL, for an engine that aggregates by itself; NULL without a partner. */
    String aggregate() {
        return isLatest() ? "max(s.seq) + 1" : isCount() ? "count(*)" : "sum(s.c)";
    }

    boolean isCount() {
        return gathered.equals("count");
    }

    boolean isLatest() {
        return gathered.equals("latest");
    }

    /** Whether the answer depends only on the existence of a partner. */
    boolean isAbsence() {
        return counted.equals("below") && below == 1;
    }

    /** The state with one more pair, which adds `value`. */
    long with(long state, long value) {
        return isLatest() ? Math.max(state, value + 1) : state + value;
    }

    /** The share of the total of a probe with this state. */
    long counts(long state) {
        return switch (counted) {
            case "rows" -> Math.max(state, 1);
            case "below" -> state < below ? 1 : 0;
            case "value" -> state == 0 ? 0 : c[(int) state - 1];
            default -> state;
        };
    }
}
