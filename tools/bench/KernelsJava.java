// parquet-java's filter, from the jars of the pyspark wheel, as a peer of kernels.py; kernels_peer.h has the protocol.
// Strings are made Binary objects before the clock runs, as Parquet's writers hand them over.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.parquet.column.values.bloomfilter.BlockSplitBloomFilter;
import org.apache.parquet.io.api.Binary;

public class KernelsJava {
    static final int SWEPT = 32 << 20; // as in kernels_peer.h
    static final int SWEEPS = 4;
    static final int WARM_KEYS = 4096;
    static final long COMPILE_NANOSECONDS = 1_500_000_000L;

    record Keys(long[] int64s, Binary[] strings) {
        int count() {
            return int64s != null ? int64s.length : strings.length;
        }
    }

    static Keys present, absent;
    // Two that are inserted into and two over the filled bitset: hashing uses a buffer of the filter, so no two threads
    // may ask one filter.
    static final BlockSplitBloomFilter[] filters = new BlockSplitBloomFilter[4];
    static final byte[][] bitsets = new byte[4][];
    static volatile long swept;

    static ByteBuffer map(String path) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(path))) {
            return file.map(FileChannel.MapMode.READ_ONLY, 0, file.size()).order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    static Keys read(String kind, String values, String offsets) throws IOException {
        ByteBuffer bytes = map(values);
        if (kind.equals("int64")) {
            long[] int64s = new long[bytes.capacity() / 8];
            bytes.asLongBuffer().get(int64s);
            return new Keys(int64s, null);
        }
        ByteBuffer ends = map(offsets);
        Binary[] strings = new Binary[ends.capacity() / 4 - 1];
        for (int i = 0; i < strings.length; i++) {
            byte[] string = new byte[ends.getInt(4 * i + 4) - ends.getInt(4 * i)];
            bytes.get(ends.getInt(4 * i), string);
            strings[i] = Binary.fromConstantByteArray(string);
        }
        return new Keys(null, strings);
    }

    static void insertInt64s(BlockSplitBloomFilter filter, long[] keys, int start, int count) {
        for (int i = start; i < start + count; i++) filter.insertHash(filter.hash(keys[i]));
    }

    static void insertStrings(BlockSplitBloomFilter filter, Binary[] keys, int start, int count) {
        for (int i = start; i < start + count; i++) filter.insertHash(filter.hash(keys[i]));
    }

    static int checkInt64s(BlockSplitBloomFilter filter, long[] keys, int start, int count) {
        int found = 0;
        for (int i = start; i < start + count; i++) if (filter.findHash(filter.hash(keys[i]))) found++;
        return found;
    }

    static int checkStrings(BlockSplitBloomFilter filter, Binary[] keys, int start, int count) {
        int found = 0;
        for (int i = start; i < start + count; i++) if (filter.findHash(filter.hash(keys[i]))) found++;
        return found;
    }

    static void insert(BlockSplitBloomFilter filter, Keys keys, int start, int count) {
        if (keys.int64s != null) insertInt64s(filter, keys.int64s, start, count);
        else insertStrings(filter, keys.strings, start, count);
    }

    static int check(BlockSplitBloomFilter filter, Keys keys, int start, int count) {
        if (keys.int64s != null) return checkInt64s(filter, keys.int64s, start, count);
        return checkStrings(filter, keys.strings, start, count);
    }

    /** The bitset itself: the filter gives it out only by writing it. */
    static byte[] bitset(BlockSplitBloomFilter filter) throws IOException {
        byte[][] last = new byte[1][];
        filter.writeTo(new OutputStream() {
            @Override
            public void write(int one) {}

            @Override
            public void write(byte[] bytes) {
                last[0] = bytes;
            }

            @Override
            public void write(byte[] bytes, int start, int count) {
                last[0] = bytes;
            }
        });
        return last[0];
    }

    static long checksum(byte[] bits) {
        ByteBuffer words = ByteBuffer.wrap(bits).order(ByteOrder.LITTLE_ENDIAN);
        long sum = 0;
        for (int i = 0; i < bits.length / 8; i++) sum += words.getLong(8 * i) * (2L * i + 1);
        return sum;
    }

    /** Runs everything until the just-in-time compiler has seen it. */
    static void compile() {
        BlockSplitBloomFilter small = new BlockSplitBloomFilter(32768);
        long start = System.nanoTime();
        int count = Math.min(present.count(), 20_000);
        while (System.nanoTime() - start < COMPILE_NANOSECONDS) {
            insert(small, present, 0, count / 4);
            swept = check(small, present, 0, count) + check(small, absent, 0, count);
        }
    }

    static String run(String operation, int threads, int start, int count) throws Exception {
        boolean insert = operation.equals("insert");
        Keys keys = operation.equals("miss") ? absent : present;
        int share = count / threads;
        long[] taken = new long[threads];
        long[] found = new long[threads];
        AtomicInteger ready = new AtomicInteger();
        var clock = ManagementFactory.getThreadMXBean();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread[] workers = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            int thread = t;
            workers[t] = new Thread(() -> {
                int place = insert ? thread : 2 + thread;
                BlockSplitBloomFilter filter = filters[place];
                int first = start + thread * share;
                int warm = (int) ((first + (long) keys.count() / 2) % (keys.count() - WARM_KEYS));
                for (int sweep = 0; sweep < SWEEPS && bitsets[place].length <= SWEPT; sweep++) {
                    swept = checksum(bitsets[place]);
                }
                if (insert) insert(filter, keys, warm, WARM_KEYS);
                else swept = check(filter, keys, warm, WARM_KEYS);
                ready.incrementAndGet();
                while (ready.get() < threads) Thread.onSpinWait();
                long before = clock.getCurrentThreadCpuTime();
                if (insert) insert(filter, keys, first, share);
                else found[thread] = check(filter, keys, first, share);
                taken[thread] = clock.getCurrentThreadCpuTime() - before;
            });
            workers[t].setUncaughtExceptionHandler((worker, error) -> failure.set(error));
            workers[t].start();
        }
        long slowest = 0;
        long total = 0;
        for (int t = 0; t < threads; t++) {
            workers[t].join();
            slowest = Math.max(slowest, taken[t]);
            total += found[t];
        }
        if (failure.get() != null) throw new IllegalStateException(failure.get());
        return slowest + " " + total;
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "keys":
                if (words[1].equals("present")) {
                    present = null; // room for the next ones
                    present = read(words[2], words[3], words[4]);
                    return Integer.toString(present.count());
                }
                absent = null;
                absent = read(words[2], words[3], words[4]);
                return Integer.toString(absent.count());
            case "warm":
                compile();
                return "ok";
            case "filter":
                Arrays.fill(filters, null);
                Arrays.fill(bitsets, null);
                byte[] filled = Files.readAllBytes(Path.of(words[2]));
                for (int i = 0; i < filters.length; i++) {
                    filters[i] = i < 2
                            ? new BlockSplitBloomFilter(Integer.parseInt(words[1]))
                            : new BlockSplitBloomFilter(filled);
                    bitsets[i] = bitset(filters[i]);
                }
                return "ok";
            case "bits":
                insert(filters[0], present, 0, present.count());
                return Long.toUnsignedString(checksum(bitsets[0]));
            case "run":
                return run(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]),
                        Integer.parseInt(words[4]));
            default:
                throw new IllegalArgumentException("what is " + words[0] + "?");
        }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split("\t"));
            } catch (Exception | OutOfMemoryError error) {
                answer = "error: " + error;
            }
            System.out.println(answer);
            System.out.flush();
        }
    }
}
