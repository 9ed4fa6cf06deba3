import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Flink: an interval join in SQL without a key, which runs as one task. A row's time is its number in milliseconds.
 *
 * Pairs come out in no order that would tell when the first n probes are done, so that each mark is a job of its own,
 * with bounded input: it has all of its pairs when it ends. The clock starts with a job's first probe; the source runs
 * ahead of the join by what Flink's buffers hold.
 */
public final class Flink {
    private static final TypeInformation<Row> ROW = new RowTypeInfo(
            new TypeInformation[] {Types.LONG, Types.LONG, Types.LONG}, new String[] {"seq", "a", "b"});
    private static final AtomicLong FOUND = new AtomicLong();
    private static Job job;
    private static int end;
    private static volatile long beganNs;
    private static volatile long beganCpuNs;

    public static void main(String[] args) throws Exception {
        job = new Job(args[0]);
        boolean isFirst = true;
        // A job costs a second or two whatever it does, and fills the window anew: every other mark is left out.
        for (int at = 2; at < job.marks.length; at += 2) {
            try {
                run(job.marks[at], isFirst ? args[1] : null);
            } catch (Exception error) {
                Job.refuse(error);
            }
            isFirst = false;
        }
        System.exit(0);
    }

    private static void run(int mark, String version) throws Exception {
        FOUND.set(0);
        end = job.fill + mark;
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        List<Job.Probing> probings = job.merged();
        List<OutputTag<Row>> tags = new ArrayList<>();
        for (int k = 0; k < 2 * probings.size(); k++) {
            tags.add(new OutputTag<>("out" + k, ROW));
        }
        // One thread feeds all inputs in the order of the rows, so that none of them runs ahead of another.
        SingleOutputStreamOperator<Row> split = environment
                .addSource(new Rows(version), "rows", ROW).process(new Split(tags), ROW);
        for (int k = 0; k < probings.size(); k++) {
            view(tables, "P" + k, split.getSideOutput(tags.get(2 * k)));
            view(tables, "S" + k, split.getSideOutput(tags.get(2 * k + 1)));
            int times = probings.get(k).times();
            tables.<RowData>toDataStream(
                            tables.sqlQuery(sql(k, probings.get(k))),
                            DataTypes.ROW(DataTypes.FIELD("seq", DataTypes.BIGINT())).bridgedTo(RowData.class))
                    .addSink(new Count(times));
        }
        environment.execute("benchmark");
        Job.reached(mark, FOUND.get(), (System.nanoTime() - beganNs) / 1e9, (Job.cpuNs() - beganCpuNs) / 1e9);
    }

    private static void view(StreamTableEnvironment tables, String name, DataStream<Row> rows) {
        Schema schema = Schema.newBuilder().column("seq", "BIGINT").column("a", "BIGINT").column("b", "BIGINT")
                .columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)").watermark("rowtime", "SOURCE_WATERMARK()").build();
        tables.createTemporaryView(name, rows, schema);
    }

    private static String sql(int k, Job.Probing probing) {
        // Rows of two streams alternate, so that a window of n rows of one spans 2 n milliseconds, as many as fill it.
        Duration length = Duration.ofMillis(job.fill);
        String span = String.format("INTERVAL '%d %02d:%02d:%02d.%03d' DAY TO SECOND(3)", length.toDays(),
                length.toHoursPart(), length.toMinutesPart(), length.toSecondsPart(), length.toMillisPart());
        return "SELECT p.seq FROM P" + k + " AS p, S" + k + " AS s WHERE (" + probing.where() + ")"
                + " AND s.rowtime BETWEEN p.rowtime - " + span + " AND p.rowtime - INTERVAL '0.001' SECOND(1, 3)";
    }

    /** The rows up to `end`, each at its number in milliseconds. */
    private static final class Rows implements SourceFunction<Row> {
        private final String version;

        Rows(String version) {
            this.version = version;
        }

        @Override
        public void run(SourceContext<Row> context) {
            int every = Math.max(1, job.window / 100);
            for (int row = 0; row < end; row++) {
                if (row == job.fill) {
                    if (version != null) {
                        job.filled(version);
                    }
                    beganNs = System.nanoTime();
                    beganCpuNs = Job.cpuNs();
                }
                context.collectWithTimestamp(Row.of((long) row, job.a[row], job.b[row]), row);
                if (row % every == 0) {
                    context.emitWatermark(new Watermark(row));
                }
            }
        }

        @Override
        public void cancel() {
            end = 0;
        }
    }

    /** Hands each row to the joins that it probes, once windows are full, and to those that store it. */
    private static final class Split extends ProcessFunction<Row, Row> {
        private final List<OutputTag<Row>> tags;

        Split(List<OutputTag<Row>> tags) {
            this.tags = tags;
        }

        @Override
        public void processElement(Row row, Context context, Collector<Row> out) {
            long seq = (long) row.getField(0);
            List<Job.Probing> probings = job.merged();
            for (int k = 0; k < probings.size(); k++) {
                if (seq >= job.fill && probings.get(k).isProbe(seq)) {
                    context.output(tags.get(2 * k), row);
                }
                if (probings.get(k).isStored(seq)) {
                    context.output(tags.get(2 * k + 1), row);
                }
            }
        }
    }

    /** Counts pairs. */
    private static final class Count implements SinkFunction<RowData> {
        private final int times;

        Count(int times) {
            this.times = times;
        }

        @Override
        public void invoke(RowData row, Context context) {
            FOUND.addAndGet(times);
        }
    }
}
