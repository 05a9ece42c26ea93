package embermq.compat.client;

import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs mqadmin's commands in this process, one at a time, and keeps what they print. */
final class Mqadmin {
    private static final PrintStream LOG = System.err;
    private static final InheritableThreadLocal<ByteArrayOutputStream> OUT = new InheritableThreadLocal<>();
    private static final InheritableThreadLocal<ByteArrayOutputStream> ERR = new InheritableThreadLocal<>();

    /** From now on all that is printed goes to the log, or to the command whose thread, or a child of it, prints. */
    static void takeOverOutput() {
        System.setOut(new PrintStream(new Divided(OUT), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Divided(ERR), true, StandardCharsets.UTF_8));
    }

    static synchronized JSONObject run(List<String> arguments) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        OUT.set(out);
        ERR.set(err);
        try {
            Impatient.run(() -> MQAdminStartup.main(arguments.toArray(new String[0])));
        } finally {
            OUT.remove();
            ERR.remove();
        }
        JSONObject printed = new JSONObject(true);
        printed.put("out", out.toString(StandardCharsets.UTF_8));
        printed.put("err", err.toString(StandardCharsets.UTF_8));
        return printed;
    }

    private static final class Divided extends OutputStream {
        private final ThreadLocal<ByteArrayOutputStream> mine;

        Divided(ThreadLocal<ByteArrayOutputStream> mine) {
            this.mine = mine;
        }

        @Override
        public void write(int letter) {
            write(new byte[] {(byte) letter}, 0, 1);
        }

        @Override
        public void write(byte[] letters, int from, int size) {
            ByteArrayOutputStream kept = mine.get();
            if (kept == null) {
                LOG.write(letters, from, size);
                LOG.flush();
            } else {
                kept.write(letters, from, size);
            }
        }
    }
}
