import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;

/** The job that job.properties describes, and the reports of its progress: README.md, "An engine". */
final class Job {
    /** One probe stream against the window of one stored stream; a parity of -1 means all rows. */
    record Probing(int probes, int stored, String where, int times) {
        boolean isProbe(long row) {
            return probes < 0 || row % 2 == probes;
        }

        boolean isStored(long row) {
            return stored < 0 || row % 2 == stored;
        }
    }

    /** Searches for a row if `isProbe`, then stores it; returns its matches in all directions. */
    interface Step {
        long take(int row, boolean isProbe) throws Exception;
    }

    /** The number of rows, and their columns by name, in the order of the names. */
    final int rows;
    final Map<String, long[]> columns = new LinkedHashMap<>();
    final Answer answer;
    /** Whether a band or an equality leaves few candidates of a window. */
    final boolean isNarrow;
    final int window;
    final int fill;
    final int[] marks;
    final List<Probing> probings = new ArrayList<>();
    private long beganNs;
    private long beganCpuNs;

    Job(String path) throws IOException {
        Properties read = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(path))) {
            read.load(reader);
        }
        window = Integer.parseInt(read.getProperty("window"));
        fill = Integer.parseInt(read.getProperty("fill"));
        marks = Arrays.stream(read.getProperty("marks").split(" ")).mapToInt(Integer::parseInt).toArray();
        for (int k = 0; k < Integer.parseInt(read.getProperty("probings")); k++) {
            String of = "probing." + k + ".";
            probings.add(new Probing(
                    parity(read.getProperty(of + "probes")),
                    parity(read.getProperty(of + "stored")),
                    read.getProperty(of + "where"),
                    Integer.parseInt(read.getProperty(of + "times"))));
        }
        LongBuffer values = mapped(read.getProperty("rows"));
        String[] names = read.getProperty("columns").split(" ");
        rows = values.limit() / names.length;
        for (String name : names) {
            columns.put(name, new long[rows]);
        }
        for (int row = 0; row < rows; row++) {
            for (long[] column : columns.values()) {
                column[row] = values.get();
            }
        }
        isNarrow = Boolean.parseBoolean(read.getProperty("narrow"));
        answer = Answer.of(read, columns.get("c"));
    }

    /** A column's value; 0 if the question doesn't read it. */
    long value(String name, int row) {
        long[] column = columns.get(name);
        return column == null ? 0 : column[row];
    }

    /** All joins between the same streams as one, for engines that compare every pair: no pair meets two conditions. */
    List<Probing> merged() {
        Probing first = probings.get(0);
        if (probings.size() < 2 || first.probes != probings.get(1).probes) {
            return probings;
        }
        String either = "(" + first.where + ") or (" + probings.get(1).where + ")";
        return List.of(new Probing(first.probes, first.stored, either, first.times));
    }

    /** Fills the window, then probes from mark to mark; for engines that answer in the caller's thread. */
    void drive(String version, Step step) throws Exception {
        for (int row = 0; row < fill; row++) {
            step.take(row, false);
        }
        filled(version);
        long total = 0;
        int row = fill;
        for (int mark : marks) {
            for (; row < fill + mark; row++) {
                total += step.take(row, true);
            }
            reached(mark, total);
        }
    }

    /** Reports that the window is full, and starts the clocks. */
    void filled(String version) {
        say("{\"filled\": %d, \"version\": \"%s\"}", fill, version);
        beganNs = System.nanoTime();
        beganCpuNs = cpuNs();
    }

    /** Reports the matches of the first `mark` probes. */
    void reached(int mark, long total) {
        reached(mark, total, (System.nanoTime() - beganNs) / 1e9, (cpuNs() - beganCpuNs) / 1e9);
    }

    /** The same, at another time. */
    static void reached(int mark, long total, double seconds, double cpuSeconds) {
        say("{\"mark\": %d, \"total\": %d, \"s\": %.6f, \"cpu_s\": %.6f}", mark, total, seconds, cpuSeconds);
    }

    /** Reports in the engine's words why it refuses the job, and exits. */
    static void refuse(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause().getMessage() != null) {
            cause = cause.getCause();
        }
        String text = String.valueOf(cause.getMessage()).replace("\\", "/").replace("\"", "'").replaceAll("\\s+", " ");
        say("{\"refused\": \"%s\"}", text);
        System.exit(0);
    }

    private static void say(String line, Object... values) {
        System.out.println(String.format(Locale.ROOT, line, values));
        System.out.flush();
    }

    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static int parity(String text) {
        return text.equals("all") ? -1 : Integer.parseInt(text);
    }

    private static LongBuffer mapped(String path) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(path))) {
            var bytes = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
            return bytes.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
        }
    }
}
