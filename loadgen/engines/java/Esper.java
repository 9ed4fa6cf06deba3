import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;

/** Esper: each probe stream's event searches a length window, by an index that Esper chooses or by a scan. */
public final class Esper {
    /** An event; columns that the question doesn't read are 0. */
    public record Row(long seq, long a, long b, long c, long k, long e) {
        public long getSeq() {
            return seq;
        }

        public long getA() {
            return a;
        }

        public long getB() {
            return b;
        }

        public long getC() {
            return c;
        }

        public long getK() {
            return k;
        }

        public long getE() {
            return e;
        }
    }

    private static final String SCAN = "@Hint('exclude_plan(true)') ";
    private static long state;

    public static void main(String[] args) throws Exception {
        Job job = new Job(args[0]);
        EPRuntime runtime;
        try {
            runtime = deployed(job);
        } catch (Exception error) {
            Job.refuse(error);
            return;
        }
        EPEventService events = runtime.getEventService();
        job.drive(args[1], (row, isProbe) -> {
            state = 0;
            Row event = new Row(row, job.value("a", row), job.value("b", row), job.value("c", row), job.value("k", row),
                    job.value("e", row));
            for (int k = 0; isProbe && k < job.probings.size(); k++) {
                if (job.probings.get(k).isProbe(row)) {
                    events.sendEventBean(event, "P" + k);
                }
            }
            for (int k = 0; k < job.probings.size(); k++) {
                if (job.probings.get(k).isStored(row)) {
                    events.sendEventBean(event, "S" + k);
                }
            }
            return isProbe ? job.answer.counts(state) : 0;
        });
    }

    private static EPRuntime deployed(Job job) throws Exception {
        Configuration configuration = new Configuration();
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        StringBuilder epl = new StringBuilder();
        for (int k = 0; k < job.probings.size(); k++) {
            configuration.getCommon().addEventType("P" + k, Row.class);
            configuration.getCommon().addEventType("S" + k, Row.class);
            epl.append("@name('").append(k).append("') ").append(select(job, k)).append(";\n");
        }
        EPRuntime runtime = EPRuntimeProvider.getDefaultRuntime(configuration);
        var compiled = EPCompilerProvider.getCompiler().compile(epl.toString(), new CompilerArguments(configuration));
        String deployment = runtime.getDeploymentService().deploy(compiled).getDeploymentId();
        for (int k = 0; k < job.probings.size(); k++) {
            int times = job.probings.get(k).times();
            runtime.getDeploymentService().getStatement(deployment, Integer.toString(k))
                    .addListener((events, old, statement, of) -> add(times, (Long) events[0].get("state")));
        }
        return runtime;
    }

    /** An index for narrow conditions; a subquery that scans for wide ones, which is several times as fast. */
    private static String select(Job job, int k) {
        String state = "select " + job.answer.aggregate(), probes = " from P" + k + " as p";
        String stored = " S" + k + "#length(" + job.window + ") as s where " + job.probings.get(k).where();
        if (job.isNarrow) {
            return state + " as state" + probes + " unidirectional," + stored;
        }
        if (job.answer.isAbsence()) {
            // The scan ends at the first partner.
            return SCAN + "select case when exists (select * from" + stored + ") then 1L else 0L end as state" + probes;
        }
        return SCAN + "select (" + state + " from" + stored + ") as state" + probes;
    }

    /** A sum or maximum of no partners is null. */
    private static void add(int times, Long found) {
        state += found == null ? 0 : times * found;
    }
}
