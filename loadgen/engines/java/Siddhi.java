import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** Siddhi: a plain stream of probes, unidirectional, joins a length window; it compares every pair. */
public final class Siddhi {
    private static long state;
    private static List<String> names;

    public static void main(String[] args) throws Exception {
        Job job = new Job(args[0]);
        List<Job.Probing> probings = job.merged();
        names = names(job);
        SiddhiAppRuntime runtime;
        try {
            runtime = new SiddhiManager().createSiddhiAppRuntime(app(job, probings));
        } catch (RuntimeException error) {
            Job.refuse(error);
            return;
        }
        for (int k = 0; k < probings.size(); k++) {
            int times = probings.get(k).times();
            runtime.addCallback("O" + k, new StreamCallback() {
                @Override
                public void receive(Event[] events) {
                    if (job.answer.isCount()) {
                        state += (long) times * events.length;
                        return;
                    }
                    for (Event event : events) {
                        state = job.answer.with(state, (Long) event.getData(0));
                    }
                }
            });
        }
        runtime.start();
        InputHandler[] probes = new InputHandler[probings.size()];
        InputHandler[] stored = new InputHandler[probings.size()];
        for (int k = 0; k < probings.size(); k++) {
            probes[k] = runtime.getInputHandler("P" + k);
            stored[k] = runtime.getInputHandler("S" + k);
        }
        job.drive(args[1], (row, isProbe) -> {
            state = 0;
            for (int k = 0; k < probings.size(); k++) {
                if (isProbe && probings.get(k).isProbe(row)) {
                    probes[k].send(row, values(job, row));
                }
            }
            for (int k = 0; k < probings.size(); k++) {
                if (probings.get(k).isStored(row)) {
                    stored[k].send(row, values(job, row));
                }
            }
            return isProbe ? job.answer.counts(state) : 0;
        });
        System.exit(0);
    }

    /** Names of a row's columns, and its number if the answer is about the newest. */
    private static List<String> names(Job job) {
        List<String> names = new ArrayList<>(job.columns.keySet());
        if (job.answer.isLatest()) {
            names.add("seq");
        }
        return names;
    }

    private static Object[] values(Job job, int row) {
        Object[] values = new Object[names.size()];
        int at = 0;
        for (long[] column : job.columns.values()) {
            values[at++] = column[row];
        }
        if (at < values.length) {
            values[at] = (long) row;
        }
        return values;
    }

    private static String app(Job job, List<Job.Probing> probings) {
        String fields = names.stream().map(name -> name + " long").collect(Collectors.joining(", ", " (", ");\n"));
        // A count needs no value of a pair, but Siddhi selects at least one.
        String value = job.answer.isCount() ? "s.a" : job.answer.value();
        StringBuilder app = new StringBuilder();
        for (int k = 0; k < probings.size(); k++) {
            app.append("define stream P").append(k).append(fields).append("define stream S").append(k).append(fields);
        }
        for (int k = 0; k < probings.size(); k++) {
            app.append("from P").append(k).append(" as p unidirectional join S").append(k)
                    .append("#window.length(").append(job.window).append(") as s on ")
                    .append(probings.get(k).where().replace(" = ", " == "))
                    .append(" select ").append(value).append(" as v insert into O").append(k).append(";\n");
        }
        return app.toString();
    }
}
