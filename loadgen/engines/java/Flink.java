import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Phaser;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Flink: an interval join in SQL without a key, which runs as one task. A row's time is its number in milliseconds.
 *
 * One job does everything, stage by stage: the fill, then the probes mark by mark. The source ends a stage
 * with a watermark and waits until every join's watermark shows that the join has taken the whole stage. The pairs and
 * the time until then are exactly the mark's. A join holds its watermark back by the longest time between two rows of a
 * pair, which is the window's.
 */
public final class Flink {
    /** Milliseconds that a row may wait in a buffer that isn't full, as the last rows of a stage do. */
    private static final long BUFFER_MS = 1;

    private static final AtomicLong FOUND = new AtomicLong();
    /** A phase is a stage; the source and each join's counter arrive at its end. */
    private static final Phaser STAGES = new Phaser(1);
    private static Job job;
    /** A row's number, then its columns. */
    private static TypeInformation<Row> rowType;

    public static void main(String[] args) throws Exception {
        job = new Job(args[0]);
        rowType = rowType();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        environment.setBufferTimeout(BUFFER_MS);
        try {
            plan(environment, args[1]);
            environment.execute("benchmark");
        } catch (Exception error) {
            Job.refuse(error);
        }
        System.exit(0);
    }

    private static TypeInformation<Row> rowType() {
        List<String> names = new ArrayList<>(List.of("seq"));
        names.addAll(job.columns.keySet());
        TypeInformation<?>[] types = names.stream().map(name -> Types.LONG).toArray(TypeInformation[]::new);
        return new RowTypeInfo(types, names.toArray(String[]::new));
    }

    private static void plan(StreamExecutionEnvironment environment, String version) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        List<Job.Probing> probings = job.merged();
        List<OutputTag<Row>> tags = new ArrayList<>();
        for (int k = 0; k < 2 * probings.size(); k++) {
            tags.add(new OutputTag<>("out" + k, rowType));
        }
        // One thread feeds all inputs in row order, so that no input runs ahead of another.
        SingleOutputStreamOperator<Row> split = environment
                .addSource(new Rows(version), "rows", rowType).process(new Split(tags), rowType);
        STAGES.bulkRegister(probings.size());
        for (int k = 0; k < probings.size(); k++) {
            view(tables, "P" + k, split.getSideOutput(tags.get(2 * k)));
            view(tables, "S" + k, split.getSideOutput(tags.get(2 * k + 1)));
            tables.<RowData>toDataStream(
                            tables.sqlQuery(sql(k, probings.get(k))),
                            pairType().bridgedTo(RowData.class))
                    .transform("count", Types.VOID, new Count(probings.get(k).times()));
        }
    }

    /** The probe's number, and the pair's share of its state, unless that is one. */
    private static DataType pairType() {
        DataTypes.Field seq = DataTypes.FIELD("seq", DataTypes.BIGINT());
        return job.answer.isCount() ? DataTypes.ROW(seq) : DataTypes.ROW(seq, DataTypes.FIELD("v", DataTypes.BIGINT()));
    }

    /** The number of a stage's last row. */
    private static long lastRow(int stage) {
        return job.fill - 1 + (stage == 0 ? 0 : job.marks[stage - 1]);
    }

    private static void view(StreamTableEnvironment tables, String name, DataStream<Row> rows) {
        Schema.Builder schema = Schema.newBuilder().column("seq", "BIGINT");
        job.columns.keySet().forEach(column -> schema.column(column, "BIGINT"));
        schema.columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)").watermark("rowtime", "SOURCE_WATERMARK()");
        tables.createTemporaryView(name, rows, schema.build());
    }

    private static String sql(int k, Job.Probing probing) {
        // Rows of two streams alternate, so a window of n rows of one stream spans 2 n milliseconds.
        Duration length = Duration.ofMillis(job.fill);
        String span = String.format("INTERVAL '%d %02d:%02d:%02d.%03d' DAY TO SECOND(3)", length.toDays(),
                length.toHoursPart(), length.toMinutesPart(), length.toSecondsPart(), length.toMillisPart());
        String value = job.answer.isCount() ? "" : ", " + job.answer.value() + " AS v";
        return "SELECT p.seq" + value + " FROM P" + k + " AS p, S" + k + " AS s WHERE (" + probing.where() + ")"
                + " AND s.rowtime BETWEEN p.rowtime - " + span + " AND p.rowtime - INTERVAL '0.001' SECOND(1, 3)";
    }

    /** The rows, stage by stage, each at its number in milliseconds. */
    private static final class Rows implements SourceFunction<Row> {
        private final String version;
        private volatile boolean isCancelled;

        Rows(String version) {
            this.version = version;
        }

        @Override
        public void run(SourceContext<Row> context) throws InterruptedException {
            long row = 0;
            for (int stage = 0; stage <= job.marks.length && !isCancelled; stage++) {
                row = feed(context, row, lastRow(stage));
                STAGES.awaitAdvanceInterruptibly(STAGES.arrive());
                if (stage == 0) {
                    job.filled(version);
                } else {
                    job.reached(job.marks[stage - 1], FOUND.get());
                }
            }
        }

        /** Emits the rows [first, last], and watermarks often enough that the join forgets old rows on the way. */
        private long feed(SourceContext<Row> context, long first, long last) {
            int every = Math.max(1, job.window / 100);
            long row = first;
            for (; row <= last && !isCancelled; row++) {
                context.collectWithTimestamp(row(row), row);
                if (row % every == 0 || row == last) {
                    context.emitWatermark(new Watermark(row));
                }
            }
            return row;
        }

        private static Row row(long number) {
            Row row = new Row(1 + job.columns.size());
            row.setField(0, number);
            int at = 1;
            for (long[] column : job.columns.values()) {
                row.setField(at++, column[(int) number]);
            }
            return row;
        }

        @Override
        public void cancel() {
            isCancelled = true;
        }
    }

    /** Hands each row to the joins that it probes, once windows are full, and to the joins that store it. */
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

    /** Gathers a join's pairs by probe, and reports their total when its watermark shows that a stage is over. */
    private static final class Count extends AbstractStreamOperator<Void>
            implements OneInputStreamOperator<RowData, Void> {
        private final int times;
        /** By probe, from the first one on. */
        private final long[] states = new long[job.rows - job.fill];
        private int reported;

        Count(int times) {
            this.times = times;
        }

        @Override
        public void processElement(StreamRecord<RowData> element) {
            RowData pair = element.getValue();
            int probe = (int) pair.getLong(0) - job.fill;
            states[probe] = job.answer.with(states[probe], job.answer.isCount() ? 1 : pair.getLong(1));
        }

        @Override
        public void processWatermark(Watermark mark) throws Exception {
            super.processWatermark(mark);
            int stage = STAGES.getPhase();
            // The join holds its watermark back by the window's length.
            if (stage <= job.marks.length && mark.getTimestamp() >= lastRow(stage) - job.fill) {
                for (int probes = (int) lastRow(stage) + 1 - job.fill; reported < probes; reported++) {
                    FOUND.addAndGet(times * job.answer.counts(states[reported]));
                }
                STAGES.arrive();
            }
        }
    }
}
