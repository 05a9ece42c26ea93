package embermq.compat;

import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.common.utils.QueueTypeUtils;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * One put, as a broker would do it for a client.
 *
 *   {"topic", "queueId", "bodyHex", "properties", "tags", "keys", "flag", "sysFlag", "bornTimestamp", "bornHost",
 *    "storeHost", "reconsumeTimes", "preparedTransactionOffset", "delayLevel"}
 *
 * Only the topic must be there. With "batch": [{"bodyHex", "properties", "tags", "keys", "flag"}, ...] instead of
 * a body, it is a client batch: kept as one record on a topic of type BatchCQ, else as one record per element.
 */
final class Put {
    private static final String HOST = "127.0.0.1:10911";

    static JSONObject put(OpenStore store, JSONObject given) {
        store.topics.get(given.getString("topic"));
        MessageExtBrokerInner message = given.containsKey("batch") ? batch(store, given) : single(store, given);
        boolean many = message instanceof MessageExtBatch && !((MessageExtBatch) message).isInnerBatch();
        return outcome(message, many ? store.store.putMessages((MessageExtBatch) message) : store.store.putMessage(message));
    }

    private static MessageExtBrokerInner single(OpenStore store, JSONObject given) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        describe(message, given);
        place(message, given);
        int level = Math.min(given.getIntValue("delayLevel"), store.store.getMaxDelayLevel());
        if (level > 0) {
            message.setDelayTimeLevel(level);
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_REAL_TOPIC, message.getTopic());
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_REAL_QUEUE_ID, String.valueOf(message.getQueueId()));
            message.setTopic(TopicValidator.RMQ_SYS_SCHEDULE_TOPIC);
            message.setQueueId(level - 1);
        }
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    private static MessageExtBatch batch(OpenStore store, JSONObject given) {
        List<Message> elements = new ArrayList<>();
        for (Object element : given.getJSONArray("batch")) {
            Message message = new Message();
            describe(message, (JSONObject) element);
            elements.add(message);
        }
        MessageExtBatch batch = new MessageExtBatch();
        describe(batch, given);
        place(batch, given);
        batch.setBody(MessageDecoder.encodeMessages(elements));
        if (QueueTypeUtils.isBatchCq(Optional.of(store.topics.get(batch.getTopic())))) {
            batch.setSysFlag(batch.getSysFlag() | MessageSysFlag.NEED_UNWRAP_FLAG | MessageSysFlag.INNER_BATCH_FLAG);
            batch.setInnerBatch(true);
            int count = MessageDecoder.countInnerMsgNum(ByteBuffer.wrap(batch.getBody()));
            MessageAccessor.putProperty(batch, MessageConst.PROPERTY_INNER_NUM, String.valueOf(count));
            batch.setPropertiesString(MessageDecoder.messageProperties2String(batch.getProperties()));
        }
        return batch;
    }

    /** What a client says about a message. */
    private static void describe(Message message, JSONObject given) {
        Map<String, String> properties = new HashMap<>();
        if (given.containsKey("properties")) {
            given.getJSONObject("properties").forEach((name, value) -> properties.put(name, String.valueOf(value)));
        }
        MessageAccessor.setProperties(message, properties);
        if (given.containsKey("tags")) {
            message.setTags(given.getString("tags"));
        }
        if (given.containsKey("keys")) {
            message.setKeys(given.getString("keys"));
        }
        message.setFlag(given.getIntValue("flag"));
        message.setBody(given.containsKey("bodyHex") ? HexFormat.of().parseHex(given.getString("bodyHex")) : new byte[0]);
    }

    /** What the broker adds. */
    private static void place(MessageExtBrokerInner message, JSONObject given) {
        message.setTopic(given.getString("topic"));
        message.setQueueId(given.getIntValue("queueId"));
        message.setSysFlag(given.getIntValue("sysFlag"));
        message.setBornTimestamp(given.containsKey("bornTimestamp") ? given.getLongValue("bornTimestamp") : System.currentTimeMillis());
        message.setBornHost(host(given.getString("bornHost")));
        message.setStoreHost(host(given.getString("storeHost")));
        message.setReconsumeTimes(given.getIntValue("reconsumeTimes"));
        message.setPreparedTransactionOffset(given.getLongValue("preparedTransactionOffset"));
    }

    private static InetSocketAddress host(String given) {
        String text = given == null ? HOST : given;
        int colon = text.lastIndexOf(':');
        return new InetSocketAddress(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
    }

    private static JSONObject outcome(MessageExtBrokerInner message, PutMessageResult result) {
        JSONObject facts = new JSONObject(true);
        facts.put("status", result.getPutMessageStatus());
        facts.put("topic", message.getTopic());
        facts.put("queueId", message.getQueueId());
        AppendMessageResult append = result.getAppendMessageResult();
        if (append != null) {
            facts.put("appendStatus", append.getStatus());
            facts.put("physicalOffset", append.getWroteOffset());
            facts.put("queueOffset", append.getLogicsOffset());
            facts.put("totalSize", append.getWroteBytes());
            facts.put("count", append.getMsgNum());
            facts.put("storeTimestamp", append.getStoreTimestamp());
            facts.put("msgId", append.getMsgId());
        }
        return facts;
    }
}
