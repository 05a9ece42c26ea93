package embermq.compat.client;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What RocketMQ's objects hold, as JSON: beans by their getters, maps by key, a queue that is a key as `topic/number`,
 * bytes in hex, or as size and SHA-256 where they are many.
 */
final class Plain {
    private static final int SHOWN_BYTES = 2_000;
    private static final int DEPTH = 9;

    static Object of(Object value) {
        return of(value, 0);
    }

    private static Object of(Object value, int depth) {
        if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean || value instanceof JSON) {
            return value;
        } else if (value instanceof Enum<?> constant) {
            return constant.name();
        } else if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        } else if (value instanceof Message message) {
            return message(message);
        } else if (value instanceof PullResult result) {
            return pull(result, depth);
        } else if (value instanceof Throwable failure) {
            return failure(failure);
        } else if (value instanceof InetSocketAddress address) {
            return address.getAddress().getHostAddress() + ":" + address.getPort();
        } else if (value instanceof Map<?, ?> map) {
            JSONObject facts = new JSONObject(true);
            map.forEach((key, each) -> facts.put(key(key), of(each, depth + 1)));
            return facts;
        } else if (value instanceof Collection<?> all) {
            JSONArray facts = new JSONArray();
            all.forEach(each -> facts.add(of(each, depth + 1)));
            return facts;
        } else if (value.getClass().isArray()) {
            JSONArray facts = new JSONArray();
            for (int i = 0; i < Array.getLength(value); i++) {
                facts.add(of(Array.get(value, i), depth + 1));
            }
            return facts;
        }
        return depth > DEPTH || value.getClass().getName().startsWith("java.") ? value.toString() : bean(value, depth);
    }

    private static String key(Object key) {
        return key instanceof MessageQueue queue ? queue.getTopic() + "/" + queue.getQueueId() : String.valueOf(key);
    }

    private static JSONObject bean(Object value, int depth) {
        JSONObject facts = new JSONObject(true);
        for (Method method : value.getClass().getMethods()) {
            String name = method.getName();
            int prefix = name.startsWith("get") ? 3 : name.startsWith("is") ? 2 : 0;
            boolean getter = prefix > 0 && name.length() > prefix && method.getParameterCount() == 0
                && !Modifier.isStatic(method.getModifiers()) && method.getDeclaringClass() != Object.class;
            if (getter) {
                String property = Character.toLowerCase(name.charAt(prefix)) + name.substring(prefix + 1);
                try {
                    facts.put(property, of(method.invoke(value), depth + 1));
                } catch (ReflectiveOperationException refused) {
                    facts.put(property, "refused: " + refused.getCause());
                }
            }
        }
        return facts;
    }

    static JSONObject message(Message message) {
        JSONObject facts = new JSONObject(true);
        facts.put("topic", message.getTopic());
        facts.put("tags", message.getTags());
        facts.put("keys", message.getKeys());
        facts.put("flag", message.getFlag());
        facts.put("properties", new JSONObject(Map.copyOf(message.getProperties())));
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        facts.put("size", body.length);
        facts.put(body.length > SHOWN_BYTES ? "bodySha256" : "bodyHex", body.length > SHOWN_BYTES ? sha256(body) : of(body));
        if (message instanceof MessageExt stored) {
            facts.put("msgId", stored.getMsgId());
            facts.put("brokerName", stored.getBrokerName());
            facts.put("queueId", stored.getQueueId());
            facts.put("queueOffset", stored.getQueueOffset());
            facts.put("commitLogOffset", stored.getCommitLogOffset());
            facts.put("storeSize", stored.getStoreSize());
            facts.put("sysFlag", stored.getSysFlag());
            facts.put("reconsumeTimes", stored.getReconsumeTimes());
            facts.put("bornTimestamp", stored.getBornTimestamp());
            facts.put("storeTimestamp", stored.getStoreTimestamp());
            facts.put("bornHost", of(stored.getBornHost()));
            facts.put("storeHost", of(stored.getStoreHost()));
        }
        return facts;
    }

    private static JSONObject pull(PullResult result, int depth) {
        JSONObject facts = new JSONObject(true);
        facts.put("status", result.getPullStatus().name());
        facts.put("nextOffset", result.getNextBeginOffset());
        facts.put("minOffset", result.getMinOffset());
        facts.put("maxOffset", result.getMaxOffset());
        Object messages = of(result.getMsgFoundList(), depth + 1);
        facts.put("messages", messages == null ? new JSONArray() : messages);
        return facts;
    }

    /** What was refused, and with which code; of a failure inside a failure, the inner code. */
    static JSONObject failure(Throwable failure) {
        JSONObject facts = new JSONObject(true);
        facts.put("type", failure.getClass().getSimpleName());
        facts.put("message", String.valueOf(failure.getMessage()));
        Integer code = null;
        for (Throwable each = failure; each != null; each = each.getCause()) {
            if (each instanceof MQBrokerException refused) {
                code = refused.getResponseCode();
            } else if (each instanceof MQClientException refused && code == null) {
                code = refused.getResponseCode();
            }
        }
        facts.put("code", code);
        return facts;
    }

    private static String sha256(byte[] body) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body));
        } catch (java.security.NoSuchAlgorithmException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
