package embermq.compat;

import com.alibaba.fastjson.JSONObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.RocksDBMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** A directory, loaded by RocketMQ's message store. Topics live where its broker keeps them, in config/topics.json. */
final class OpenStore {
    private static final long DISPATCH_TIMEOUT_MS = Long.getLong("dispatchTimeoutMs", 30_000);

    final Path directory;
    final MessageStoreConfig config = new MessageStoreConfig();
    final TopicsFile topics;
    final DefaultMessageStore store;
    final JSONObject found = new JSONObject();  // what lay there before RocketMQ touched it

    OpenStore(Path directory, JSONObject spec) throws Exception {
        this.directory = directory;
        BrokerConfig broker = configure(spec.getJSONObject("config"));
        topics = new TopicsFile(directory);
        topics.add(StoreTool.list(spec, "topics"));
        found.put("abort", Files.exists(directory.resolve("abort")));
        found.put("checkpoint", Facts.checkpoint(directory.resolve("checkpoint")));
        BrokerStatsManager statistics = new BrokerStatsManager("compat", false);
        store = "defaultRocksDB".equals(config.getStoreType())
            ? new RocksDBMessageStore(config, statistics, null, broker, topics.topics)
            : new DefaultMessageStore(config, statistics, null, broker, topics.topics);
        if (!store.load()) {
            throw new IllegalStateException("RocketMQ could not load " + directory);
        }
    }

    void start() throws Exception {
        store.start();
    }

    void waitForDispatch() throws InterruptedException {
        long deadline = System.currentTimeMillis() + DISPATCH_TIMEOUT_MS;
        while (store.dispatchBehindBytes() > 0) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException(store.dispatchBehindBytes() + " bytes not dispatched in time");
            }
            Thread.sleep(1);
        }
    }

    void shutdown() {
        // A shutdown begins with three seconds of sleep; this interrupt ends them, and nothing else.
        Thread.currentThread().interrupt();
        store.shutdown();
        if (Files.exists(directory.resolve("abort"))) {
            throw new IllegalStateException("RocketMQ did not close " + directory + " cleanly");
        }
    }

    private BrokerConfig configure(JSONObject given) {
        Properties properties = new Properties();
        properties.setProperty("haListenPort", "0");  // any free port: several stores may be open at once
        properties.setProperty("flushCommitLogTimed", "false");  // or a shutdown waits half a second for the flusher
        properties.setProperty("fileReservedTime", "87600");  // golden data is old, and must stay
        if (given != null) {
            given.forEach((name, value) -> properties.setProperty(name, String.valueOf(value)));
        }
        BrokerConfig broker = new BrokerConfig();
        MixAll.properties2Object(properties, config);
        MixAll.properties2Object(properties, broker);
        config.setStorePathRootDir(directory.toString());
        if (!properties.containsKey("storePathCommitLog")) {
            config.setStorePathCommitLog(directory.resolve("commitlog").toString());
        }
        return broker;
    }
}
