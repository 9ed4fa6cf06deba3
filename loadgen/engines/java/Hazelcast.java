import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.sql.SqlResult;
import com.hazelcast.sql.SqlRow;
import com.hazelcast.sql.SqlService;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Hazelcast: a join of streams in SQL, bounded by row numbers in both directions, since it accepts no unbounded join.
 *
 * Its only stream without a broker is a counter, which a map turns into rows. Even numbers are rows. An odd one
 * after a mark's last probe stands for a sentinel, a probe that matches nothing: the join is an outer one, and emits such
 * a probe alone once the stored rows' watermark has passed it. By then all probes before it have been taken, and
 * all rows that they could match, so all of their pairs have come out before it; one thread, one partition and
 * ordered streams keep that order. Nothing can make the counter wait: when a mark is reported, some pairs of later probes
 * have been found too, as at the mark before.
 */
public final class Hazelcast {
    /** A value of the map. */
    public static class Pair implements Serializable {
        public long a;
        public long b;

        public Pair() {}

        Pair(long a, long b) {
            this.a = a;
            this.b = b;
        }
    }

    /** One with three columns more. */
    public static final class Wide extends Pair {
        public long c;
        public long k;
        public long e;

        public Wide() {}

        Wide(long a, long b, long c, long k, long e) {
            super(a, b);
            this.c = c;
            this.k = k;
            this.e = e;
        }
    }

    /** Numbers requested per second; a saturated engine takes fewer. */
    private static final int RATE = 1_000_000;

    /** A sentinel's values: no row is near them, or larger in one and smaller in the other. */
    private static final long FAR = 1L << 40;

    private static Job job;
    private static String version;
    private static int joins;
    /** By stage (the fill, then each mark): the number of joins that have ended it, and their matches. */
    private static int[] ended;
    private static long[] totals;

    public static void main(String[] args) throws Exception {
        job = new Job(args[0]);
        version = args[1];
        ended = new int[job.marks.length + 1];
        totals = new long[job.marks.length + 1];
        System.setProperty("hazelcast.logging.type", "none");
        Config config = new Config();
        config.setProperty("hazelcast.partition.count", "1").setProperty("hazelcast.phone.home.enabled", "false");
        config.getJetConfig().setEnabled(true).setCooperativeThreadCount(1);
        var network = config.getNetworkConfig();
        network.getJoin().getAutoDetectionConfig().setEnabled(false);
        network.getJoin().getMulticastConfig().setEnabled(false);
        network.getInterfaces().setEnabled(true).addInterface("127.0.0.1");
        HazelcastInstance member = com.hazelcast.core.Hazelcast.newHazelcastInstance(config);
        var rows = member.<Long, Pair>getMap("numbered");
        for (int first = 0; first < job.rows; first += 10_000) {
            Map<Long, Pair> some = new HashMap<>();
            for (int row = first; row < Math.min(first + 10_000, job.rows); row++) {
                some.put(2L * row, pair(row));
            }
            rows.setAll(some);
        }
        for (int stage = 0; stage <= job.marks.length; stage++) {
            rows.set(sentinel(stage), isWide() ? new Wide(FAR, FAR, FAR, FAR, FAR) : new Pair(FAR, FAR));
        }
        SqlService sql = member.getSql();
        Class<?> type = isWide() ? Wide.class : Pair.class;
        sql.execute("CREATE MAPPING numbered (__key BIGINT, a BIGINT, b BIGINT" + (isWide() ? ", c BIGINT, k BIGINT, e BIGINT" : "")
                + ") TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='java', 'valueJavaClass'='" + type.getName()
                + "')").close();
        List<Results> results = new ArrayList<>();
        for (Job.Probing probing : job.merged()) {
            results.add(new Results(sql, probing));
        }
        joins = results.size();
        for (Results each : results) {
            each.start();
        }
        for (Results each : results) {
            each.join();
        }
        System.exit(0);
    }

    /** Whether the question reads more than a and b. */
    private static boolean isWide() {
        return job.columns.containsKey("c");
    }

    private static Pair pair(int row) {
        long a = job.value("a", row), b = job.value("b", row);
        if (!isWide()) {
            return new Pair(a, b);
        }
        return new Wide(a, b, job.value("c", row), job.value("k", row), job.value("e", row));
    }

    /** Probes of a stage and all before it. */
    private static int probes(int stage) {
        return stage == 0 ? 0 : job.marks[stage - 1];
    }

    /** The number after the last row of a stage. */
    private static long sentinel(int stage) {
        return 2L * (job.fill + probes(stage)) - 1;
    }

    /** Notes that a join has ended a stage, and reports it once all have. */
    private static synchronized void end(int stage, long total) {
        totals[stage] += total;
        if (++ended[stage] < joins) {
            return;
        }
        if (stage == 0) {
            job.filled(version);
        } else {
            job.reached(job.marks[stage - 1], totals[stage]);
        }
    }

    /** Reads a query's pairs, and gathers them by probe. */
    private static final class Results extends Thread {
        private final long[] states = new long[job.rows - job.fill];
        private final SqlService sql;
        private final Job.Probing probing;

        Results(SqlService sql, Job.Probing probing) {
            this.sql = sql;
            this.probing = probing;
            setDaemon(true);
        }

        @Override
        public void run() {
            int stage = 0;
            try (SqlResult pairs = sql.execute(query())) {
                for (SqlRow pair : pairs) {
                    long probe = pair.<Long>getObject(0);
                    if (pair.getObject(1) != null) {
                        gather((int) (probe / 2 - job.fill), pair);
                    } else if (probe == sentinel(stage)) {
                        end(stage, total(probes(stage)));
                        if (++stage > job.marks.length) {
                            return;
                        }
                    }
                }
            } catch (RuntimeException error) {
                Job.refuse(error);
            }
        }

        private void gather(int probe, SqlRow pair) {
            // Column 1 is twice the stored row's number.
            long value = job.answer.isCount() ? 1 : job.answer.isLatest() ? pair.<Long>getObject(1) / 2 : pair.getObject(2);
            states[probe] = job.answer.with(states[probe], value);
        }

        private long total(int probes) {
            return Arrays.stream(states, 0, probes).map(job.answer::counts).sum() * probing.times();
        }

        private String query() {
            String sentinels = IntStream.rangeClosed(0, job.marks.length).mapToObj(stage -> Long.toString(sentinel(stage)))
                    .collect(Collectors.joining(", "));
            String probes = "(" + rows(probing.probes()) + " AND n.v >= " + 2 * job.fill + " OR n.v IN (" + sentinels + "))";
            String value = job.answer.isCount() || job.answer.isLatest() ? "" : ", " + job.answer.value();
            return "SELECT p.v, s.v" + value + " FROM " + ordered(probes) + " AS p LEFT JOIN " + ordered(rows(probing.stored()))
                    + " AS s ON (" + probing.where() + ") AND s.v BETWEEN p.v - " + 2 * job.fill + " AND p.v - 1";
        }

        /** Selects the numbers of a stream's rows. */
        private static String rows(int parity) {
            return parity < 0 ? "MOD(n.v, 2) = 0" : "MOD(n.v, 4) = " + 2 * parity;
        }

        private static String ordered(String which) {
            // The order is imposed on the numbers: imposed on their join with the map, it would get lost.
            return "(SELECT o.v AS v, r.a AS a, r.b AS b" + (isWide() ? ", r.c AS c, r.k AS k, r.e AS e" : "") + " FROM TABLE(IMPOSE_ORDER((SELECT n.v AS v FROM"
                    + " TABLE(generate_stream(" + RATE + ")) AS n WHERE " + which + "), DESCRIPTOR(v), 0)) AS o"
                    + " JOIN numbered AS r ON r.__key = o.v)";
        }
    }
}
