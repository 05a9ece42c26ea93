package embermq.compat.client;

/**
 * Runs what ends with a client's shutdown. That waits up to three seconds for a thread that polls for events; an
 * interrupt ends this wait, and nothing else.
 */
final class Impatient {
    private static final long LOOK_MS = 20;

    interface Work {
        void run() throws Exception;
    }

    static void run(Work work) throws Exception {
        Exception[] failure = new Exception[1];
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception thrown) {
                failure[0] = thrown;
            }
        });
        thread.start();
        for (thread.join(LOOK_MS); thread.isAlive(); thread.join(LOOK_MS)) {
            if (waitsForEvents(thread.getStackTrace())) {
                thread.interrupt();
            }
        }
        if (failure[0] != null) {
            throw failure[0];
        }
    }

    private static boolean waitsForEvents(StackTraceElement[] stack) {
        boolean joins = false;
        for (StackTraceElement frame : stack) {
            joins |= frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown");
            if (joins && frame.getClassName().endsWith(".NettyRemotingClient")) {
                return true;
            }
        }
        return false;
    }
}
