package embermq.compat.client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends messages. One is {"topic", "body" or "bodyHex" or "size" (so many letters x), "tags", "keys" (a list), "flag",
 * "properties", "reserved" (properties whose names users may not use), "delayLevel", "delaySec", "delayMs", "deliverMs",
 * "queue" (chosen), "shard" (hashed), "wait": false}; the mode is sync, async, oneway or batch. What came of each message
 * is {"status", "msgId", "offsetMsgId", "queueId", "queueOffset", "recallHandle"} or {"error"}.
 */
final class Sending {
    static Object send(DefaultMQProducer producer, JSONObject request) throws Exception {
        List<JSONObject> specs = Clients.list(request, "messages").toJavaList(JSONObject.class);
        return switch (request.getString("mode")) {
            case "batch" -> batch(producer, specs);
            case "async" -> async(producer, specs);
            default -> oneByOne(producer, specs, request.getString("mode").equals("oneway"));
        };
    }

    private static JSONArray oneByOne(DefaultMQProducer producer, List<JSONObject> specs, boolean oneway) {
        JSONArray results = new JSONArray();
        for (JSONObject spec : specs) {
            try {
                results.add(result(sendOne(producer, spec, oneway)));
            } catch (Exception failure) {
                results.add(refused(failure));
            }
        }
        return results;
    }

    private static SendResult sendOne(DefaultMQProducer producer, JSONObject spec, boolean oneway) throws Exception {
        Message message = message(spec);
        if (oneway) {
            producer.sendOneway(message);
            return null;
        } else if (spec.containsKey("queue")) {
            return producer.send(message, queue(spec));
        } else if (spec.containsKey("shard")) {
            return producer.send(message, new SelectMessageQueueByHash(), spec.getString("shard"));
        }
        return producer.send(message);
    }

    private static JSONArray batch(DefaultMQProducer producer, List<JSONObject> specs) throws Exception {
        List<Message> messages = new ArrayList<>();
        specs.forEach(spec -> messages.add(message(spec)));
        boolean chosen = specs.get(0).containsKey("queue");
        JSONArray results = new JSONArray();
        results.add(result(chosen ? producer.send(messages, queue(specs.get(0))) : producer.send(messages)));
        return results;
    }

    private static JSONArray async(DefaultMQProducer producer, List<JSONObject> specs) throws Exception {
        List<CompletableFuture<JSONObject>> answers = new ArrayList<>();
        for (JSONObject spec : specs) {
            CompletableFuture<JSONObject> answer = new CompletableFuture<>();
            answers.add(answer);
            producer.send(message(spec), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    answer.complete(result(result));
                }

                @Override
                public void onException(Throwable failure) {
                    answer.complete(refused(failure));
                }
            });
        }
        JSONArray results = new JSONArray();
        for (CompletableFuture<JSONObject> answer : answers) {
            results.add(answer.get(30, TimeUnit.SECONDS));
        }
        return results;
    }

    /** Bodies are `thread-number`; results come as [body, queue, offset] or [body, error]. */
    static JSONArray flood(DefaultMQProducer producer, JSONObject request) throws Exception {
        int threads = request.getIntValue("threads");
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<JSONArray>> parts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            String name = thread + "-";
            parts.add(pool.submit(() -> floodPart(producer, request, name)));
        }
        JSONArray all = new JSONArray();
        for (Future<JSONArray> part : parts) {
            all.addAll(part.get());
        }
        pool.shutdown();
        return all;
    }

    private static JSONArray floodPart(DefaultMQProducer producer, JSONObject request, String name) {
        JSONArray results = new JSONArray();
        for (int number = 0; number < request.getIntValue("count"); number++) {
            String body = name + number;
            JSONArray one = new JSONArray();
            one.add(body);
            try {
                SendResult result = producer.send(new Message(request.getString("topic"), body.getBytes(StandardCharsets.UTF_8)));
                one.add(result.getMessageQueue().getQueueId());
                one.add(result.getQueueOffset());
            } catch (Exception failure) {
                one.add(Plain.failure(failure));
            }
            results.add(one);
        }
        return results;
    }

    /** The asynchronous form calls back once for the send, with null, and once for the reply. */
    static Object request(DefaultMQProducer producer, JSONObject request) throws Exception {
        CompletableFuture<Object> answer = new CompletableFuture<>();
        producer.request(message(request.getJSONObject("message")), new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                if (reply != null) {
                    answer.complete(Plain.message(reply));
                }
            }

            @Override
            public void onException(Throwable failure) {
                answer.complete(refused(failure));
            }
        }, request.getLongValue("timeoutMs"));
        return answer.get(request.getLongValue("timeoutMs") + 10_000, TimeUnit.MILLISECONDS);
    }

    static Message message(JSONObject spec) {
        Message message = new Message();
        message.setTopic(spec.getString("topic"));
        message.setBody(body(spec));
        if (spec.containsKey("tags")) {
            message.setTags(spec.getString("tags"));
        }
        if (spec.containsKey("keys")) {
            message.setKeys(spec.getJSONArray("keys").toJavaList(String.class));
        }
        message.setFlag(spec.getIntValue("flag"));
        message.setWaitStoreMsgOK(!Boolean.FALSE.equals(spec.getBoolean("wait")));
        Clients.object(spec, "properties").forEach((name, value) -> message.putUserProperty(name, (String) value));
        Clients.object(spec, "reserved").forEach((name, value) -> MessageAccessor.putProperty(message, name, (String) value));
        if (spec.containsKey("delayLevel")) {
            message.setDelayTimeLevel(spec.getIntValue("delayLevel"));
        }
        if (spec.containsKey("delaySec")) {
            message.setDelayTimeSec(spec.getLongValue("delaySec"));
        }
        if (spec.containsKey("delayMs")) {
            message.setDelayTimeMs(spec.getLongValue("delayMs"));
        }
        if (spec.containsKey("deliverMs")) {
            message.setDeliverTimeMs(spec.getLongValue("deliverMs"));
        }
        return message;
    }

    private static byte[] body(JSONObject spec) {
        if (spec.containsKey("bodyHex")) {
            return HexFormat.of().parseHex(spec.getString("bodyHex"));
        } else if (spec.containsKey("size")) {
            return "x".repeat(spec.getIntValue("size")).getBytes(StandardCharsets.UTF_8);
        }
        return spec.getString("body").getBytes(StandardCharsets.UTF_8);
    }

    private static MessageQueue queue(JSONObject spec) {
        return new MessageQueue(spec.getString("topic"), spec.getString("broker"), spec.getIntValue("queue"));
    }

    static JSONObject result(SendResult result) {
        JSONObject facts = new JSONObject(true);
        if (result != null) {
            facts.put("status", result.getSendStatus().name());
            facts.put("msgId", result.getMsgId());
            facts.put("offsetMsgId", result.getOffsetMsgId());
            facts.put("queueId", result.getMessageQueue().getQueueId());
            facts.put("broker", result.getMessageQueue().getBrokerName());
            facts.put("queueOffset", result.getQueueOffset());
            facts.put("recallHandle", result.getRecallHandle());
        }
        return facts;
    }

    private static JSONObject refused(Throwable failure) {
        JSONObject facts = new JSONObject(true);
        facts.put("error", Plain.failure(failure));
        return facts;
    }
}
