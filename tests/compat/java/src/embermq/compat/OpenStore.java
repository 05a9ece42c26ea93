package embermq.compat;

import com.alibaba.fastjson.JSONObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.RocksDBMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** A directory, loaded by RocketMQ's message store. Topics live where its broker keeps them, in config/topics.json. */
final class OpenStore {
    private static final long DISPATCH_TIMEOUT_MS = 30_000;

    final Path directory;
    private final Path topicsFile;
    final MessageStoreConfig config = new MessageStoreConfig();
    final ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
    final DefaultMessageStore store;
    final JSONObject found = new JSONObject();  // what lay there before RocketMQ touched it
    private boolean topicsChanged;

    OpenStore(Path directory, JSONObject spec) throws Exception {
        this.directory = directory;
        this.topicsFile = directory.resolve("config/topics.json");
        BrokerConfig broker = configure(spec.getJSONObject("config"));
        readTopics();
        for (Object topic : StoreTool.list(spec, "topics")) {
            addTopic((JSONObject) topic);
        }
        found.put("abort", Files.exists(directory.resolve("abort")));
        found.put("checkpoint", Facts.checkpoint(directory.resolve("checkpoint")));
        BrokerStatsManager statistics = new BrokerStatsManager("compat", false);
        store = "defaultRocksDB".equals(config.getStoreType())
            ? new RocksDBMessageStore(config, statistics, null, broker, topics)
            : new DefaultMessageStore(config, statistics, null, broker, topics);
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

    /** The topic of a message; made with four queues if nobody named it. */
    TopicConfig topic(String name) {
        return topics.computeIfAbsent(name, missing -> {
            topicsChanged = true;
            return new TopicConfig(missing, 4, 4, 6);
        });
    }

    private BrokerConfig configure(JSONObject given) {
        Properties properties = new Properties();
        properties.setProperty("haListenPort", "0");  // any free port: several stores may be open at once
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

    private void addTopic(JSONObject given) {
        int queues = given.containsKey("queues") ? given.getIntValue("queues") : 4;
        TopicConfig topic = new TopicConfig(given.getString("name"), queues, queues, 6);
        HashMap<String, String> attributes = new HashMap<>();
        if (given.containsKey("attributes")) {
            given.getJSONObject("attributes").forEach((name, value) -> attributes.put(name, String.valueOf(value)));
        }
        topic.setAttributes(attributes);
        topics.put(topic.getTopicName(), topic);
        topicsChanged = true;
    }

    private void readTopics() throws Exception {
        if (Files.exists(topicsFile)) {
            String text = Files.readString(topicsFile);
            topics.putAll(RemotingSerializable.fromJson(text, TopicConfigSerializeWrapper.class).getTopicConfigTable());
        }
    }

    void saveTopics() throws Exception {
        if (topicsChanged) {
            TopicConfigSerializeWrapper table = new TopicConfigSerializeWrapper();
            table.setTopicConfigTable(topics);
            table.setDataVersion(new DataVersion());
            Files.createDirectories(topicsFile.getParent());
            Files.writeString(topicsFile, table.toJson(true));
        }
    }
}
