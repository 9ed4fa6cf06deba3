import com.hazelcast.config.Config;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.sql.SqlResult;
import com.hazelcast.sql.SqlRow;
import com.hazelcast.sql.SqlService;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Hazelcast: a join of streams in SQL, bounded by row numbers in both directions, since it takes none without bounds.
 *
 * Its only stream without a broker is a counter, which a map turns into rows. Pairs come out one by one, and their order
 * tells little: the first n probes are taken as done when a pair of a probe beyond the first 2 n has come out, and
 * nothing has been added to theirs for a second, since the two sides of the join do not run in step. The time that
 * counts is that at which the first pair beyond the first n came out.
 */
public final class Hazelcast {
    /** A value of the map. */
    public static final class Pair implements Serializable {
        public long a;
        public long b;

        public Pair() {}

        Pair(long a, long b) {
            this.a = a;
            this.b = b;
        }
    }

    /** Numbers a second that are asked for; a full engine takes fewer. */
    private static final int RATE = 500_000;

    /** Fewer probes than this may be done on one side of the join before the other has brought what they match. */
    private static final int FIRST_MARK = 1_024;

    private static final AtomicInteger FILLED = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        Job job = new Job(args[0]);
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
        for (int first = 0; first < job.a.length; first += 10_000) {
            Map<Long, Pair> some = new HashMap<>();
            for (int row = first; row < Math.min(first + 10_000, job.a.length); row++) {
                some.put((long) row, new Pair(job.a[row], job.b[row]));
            }
            rows.setAll(some);
        }
        SqlService sql = member.getSql();
        sql.execute("CREATE MAPPING numbered (__key BIGINT, a BIGINT, b BIGINT) TYPE IMap OPTIONS ('keyFormat'='bigint',"
                + " 'valueFormat'='java', 'valueJavaClass'='" + Pair.class.getName() + "')").close();
        List<Results> results = new ArrayList<>();
        for (Job.Probing probing : job.merged()) {
            results.add(new Results(job, sql, probing, args[1]));
        }
        for (Results each : results) {
            each.start();
        }
        follow(job, results);
        System.exit(0);
    }

    private static void follow(Job job, List<Results> results) throws InterruptedException {
        double[][] times = new double[job.marks.length][];
        long beganNs = 0;
        long beganCpuNs = 0;
        int timed = 0;
        int told = 0;
        while (told < job.marks.length && job.marks[told] < FIRST_MARK) {
            told++;
        }
        while (told < job.marks.length) {
            Thread.sleep(1);
            if (FILLED.get() == 0) {
                continue;
            }
            if (beganNs == 0) {
                beganNs = System.nanoTime();
                beganCpuNs = Job.cpuNs();
            }
            long progress = results.stream().mapToLong(each -> each.progress.get()).min().getAsLong();
            for (; timed < job.marks.length && progress >= job.marks[timed]; timed++) {
                times[timed] = new double[] {(System.nanoTime() - beganNs) / 1e9, (Job.cpuNs() - beganCpuNs) / 1e9};
            }
            if (told < timed && progress >= 2L * job.marks[told]) {
                told = tell(job, results, times, told, progress);
            }
        }
    }

    /** Tells all marks that are done; the number of the first that is not. */
    private static int tell(Job job, List<Results> results, double[][] times, int told, long progress)
            throws InterruptedException {
        int last = told;
        while (last + 1 < job.marks.length && progress >= 2L * job.marks[last + 1]) {
            last++;
        }
        for (long before = -1, now = total(results, job.marks[last]); before != now; ) {
            Thread.sleep(1_000);
            before = now;
            now = total(results, job.marks[last]);
        }
        for (int k = told; k <= last; k++) {
            Job.reached(job.marks[k], total(results, job.marks[k]), times[k][0], times[k][1]);
        }
        return last + 1;
    }

    private static long total(List<Results> results, int mark) {
        return results.stream().mapToLong(each -> each.total(mark)).sum();
    }

    /** A query's pairs, counted by probe. */
    private static final class Results extends Thread {
        final AtomicLong progress = new AtomicLong();
        private final AtomicIntegerArray counts;
        private final Job job;
        private final SqlService sql;
        private final Job.Probing probing;
        private final String version;

        Results(Job job, SqlService sql, Job.Probing probing, String version) {
            this.job = job;
            this.sql = sql;
            this.probing = probing;
            this.version = version;
            counts = new AtomicIntegerArray(job.a.length - job.fill);
            setDaemon(true);
        }

        long total(int mark) {
            long total = 0;
            for (int probe = 0; probe < mark; probe++) {
                total += counts.get(probe);
            }
            return total * probing.times();
        }

        @Override
        public void run() {
            try (SqlResult pairs = sql.execute(query())) {
                for (SqlRow pair : pairs) {
                    long probe = pair.<Long>getObject(0) - job.fill;
                    if (FILLED.compareAndSet(0, 1)) {
                        job.filled(version);
                    }
                    counts.incrementAndGet((int) probe);
                    if (probe > progress.get()) {
                        progress.set(probe);
                    }
                }
            } catch (RuntimeException error) {
                Job.refuse(error);
            }
        }

        private String query() {
            return "SELECT p.v FROM " + ordered(probing.probes(), job.fill) + " AS p JOIN " + ordered(probing.stored(), 0)
                    + " AS s ON (" + probing.where() + ") AND s.v BETWEEN p.v - " + job.fill + " AND p.v - 1";
        }

        private static String ordered(int parity, int first) {
            String which = parity < 0 ? "" : " AND MOD(n.v, 2) = " + parity;
            // The order is imposed on the numbers, since it doesn't outlive being imposed on what is joined to a map.
            return "(SELECT o.v AS v, r.a AS a, r.b AS b FROM TABLE(IMPOSE_ORDER((SELECT n.v AS v FROM"
                    + " TABLE(generate_stream(" + RATE + ")) AS n WHERE n.v >= " + first + which + "), DESCRIPTOR(v), 0)) AS o"
                    + " JOIN numbered AS r ON r.__key = o.v)";
        }
    }
}
