import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.util.List;

/** Siddhi: a plain stream of probes, unidirectional, joins a length window; it compares every pair. */
public final class Siddhi {
    private static long found;

    public static void main(String[] args) throws Exception {
        Job job = new Job(args[0]);
        List<Job.Probing> probings = job.merged();
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
                    found += (long) times * events.length;
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
            found = 0;
            for (int k = 0; k < probings.size(); k++) {
                if (isProbe && probings.get(k).isProbe(row)) {
                    probes[k].send(row, new Object[] {job.a[row], job.b[row]});
                }
            }
            for (int k = 0; k < probings.size(); k++) {
                if (probings.get(k).isStored(row)) {
                    stored[k].send(row, new Object[] {job.a[row], job.b[row]});
                }
            }
            return found;
        });
        System.exit(0);
    }

    private static String app(Job job, List<Job.Probing> probings) {
        StringBuilder app = new StringBuilder();
        for (int k = 0; k < probings.size(); k++) {
            app.append("define stream P").append(k).append(" (a long, b long); define stream S").append(k)
                    .append(" (a long, b long);\n");
        }
        for (int k = 0; k < probings.size(); k++) {
            app.append("from P").append(k).append(" as p unidirectional join S").append(k)
                    .append("#window.length(").append(job.window).append(") as s on ").append(probings.get(k).where())
                    .append(" select s.a as a insert into O").append(k).append(";\n");
        }
        return app.toString();
    }
}
