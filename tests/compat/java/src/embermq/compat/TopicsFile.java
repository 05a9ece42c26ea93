package embermq.compat;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.ConfigManager;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;

/** config/topics.json of a store, read and written as RocketMQ's broker does: with its JSON library, and a backup. */
final class TopicsFile extends ConfigManager {
    final ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
    private final Path path;
    private DataVersion version = new DataVersion();
    private boolean changed;

    TopicsFile(Path directory) {
        path = directory.resolve("config/topics.json");
        if (!load()) {
            throw new IllegalStateException("RocketMQ could not load " + path);
        }
    }

    /** Add topics, each {"name", "queues", "attributes": {...}}. */
    void add(JSONArray given) {
        for (Object topic : given) {
            add((JSONObject) topic);
        }
    }

    private void add(JSONObject given) {
        int queues = given.containsKey("queues") ? given.getIntValue("queues") : 4;
        TopicConfig topic = new TopicConfig(given.getString("name"), queues, queues, 6);
        HashMap<String, String> attributes = new HashMap<>();
        if (given.containsKey("attributes")) {
            given.getJSONObject("attributes").forEach((name, value) -> attributes.put(name, String.valueOf(value)));
        }
        topic.setAttributes(attributes);
        topics.put(topic.getTopicName(), topic);
        changed = true;
    }

    /** The topic of a message; made with four queues if nobody named it. */
    TopicConfig get(String name) {
        return topics.computeIfAbsent(name, missing -> {
            changed = true;
            return new TopicConfig(missing, 4, 4, 6);
        });
    }

    void save() {
        if (changed) {
            version.nextVersion();
            persist();
            changed = false;
        }
    }

    JSONObject facts() {
        return JSON.parseObject(encode());
    }

    @Override
    public String configFilePath() {
        return path.toString();
    }

    @Override
    public String encode() {
        return encode(false);
    }

    @Override
    public String encode(boolean pretty) {
        TopicConfigSerializeWrapper table = new TopicConfigSerializeWrapper();
        table.setTopicConfigTable(topics);
        table.setDataVersion(version);
        return table.toJson(pretty);
    }

    @Override
    public void decode(String text) {
        TopicConfigSerializeWrapper table = RemotingSerializable.fromJson(text, TopicConfigSerializeWrapper.class);
        topics.putAll(table.getTopicConfigTable());
        version = table.getDataVersion();
    }
}
