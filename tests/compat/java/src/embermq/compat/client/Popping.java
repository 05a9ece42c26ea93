package embermq.compat.client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Pops and acknowledges through the client's own calls to a broker, as its push consumers do in POP mode. Each request
 * names `address`, `broker`, `topic` and `group`; see the headers for the rest.
 */
final class Popping {
    private static final long TIMEOUT_MS = 40_000;

    private final MQClientAPIImpl api;
    private final JSONObject request;
    private final String address;
    private final String broker;
    private final String topic;
    private final String group;

    Popping(DefaultMQProducer client, JSONObject request) {
        this.api = client.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
        this.request = request;
        this.address = request.getString("address");
        this.broker = request.getString("broker");
        this.topic = request.getString("topic");
        this.group = request.getString("group");
    }

    Object run() throws Exception {
        return switch (request.getString("what")) {
            case "pop" -> pop();
            case "ack" -> ack();
            case "ackBatch" -> ackBatch();
            case "change" -> change();
            default -> throw new IllegalArgumentException("no such call: " + request.getString("what"));
        };
    }

    private JSONObject pop() throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setBrokerName(broker);
        header.setQueueId(request.getIntValue("queue"));
        header.setMaxMsgNums(request.getIntValue("most"));
        header.setInvisibleTime(request.getLongValue("invisibleMs"));
        header.setPollTime(request.getLongValue("pollMs"));
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(request.getIntValue("initMode"));
        header.setExpType("TAG");
        header.setExp(request.getString("tags"));
        header.setOrder(request.getBooleanValue("order"));
        header.setAttemptId(request.getString("attempt"));
        CompletableFuture<PopResult> found = new CompletableFuture<>();
        api.popMessageAsync(broker, address, header, TIMEOUT_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                found.complete(result);
            }

            @Override
            public void onException(Throwable failure) {
                found.completeExceptionally(failure);
            }
        });
        PopResult result = get(found);
        JSONObject facts = new JSONObject(true);
        facts.put("status", result.getPopStatus().name());
        facts.put("popTime", result.getPopTime());
        facts.put("invisibleMs", result.getInvisibleTime());
        facts.put("rest", result.getRestNum());
        JSONArray messages = new JSONArray();
        if (result.getMsgFoundList() != null) {
            for (MessageExt message : result.getMsgFoundList()) {
                messages.add(Plain.message(message));
            }
        }
        facts.put("messages", messages);
        return facts;
    }

    private Object ack() throws Exception {
        String handle = request.getString("handle");
        String[] parts = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setConsumerGroup(group);
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        header.setBrokerName(broker);
        Done done = new Done();
        api.ackMessageAsync(address, TIMEOUT_MS, done, header);
        return done.facts();
    }

    private Object ackBatch() throws Exception {
        Done done = new Done();
        api.batchAckMessageAsync(address, TIMEOUT_MS, done, topic, group,
            Clients.list(request, "handles").toJavaList(String.class));
        return done.facts();
    }

    private Object change() throws Exception {
        String handle = request.getString("handle");
        String[] parts = ExtraInfoUtil.split(handle);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setConsumerGroup(group);
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        header.setInvisibleTime(request.getLongValue("invisibleMs"));
        header.setBrokerName(broker);
        Done done = new Done();
        api.changeInvisibleTimeAsync(broker, address, header, TIMEOUT_MS, done);
        return done.facts();
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        try {
            return future.get(TIMEOUT_MS + 2_000, TimeUnit.MILLISECONDS);
        } catch (java.util.concurrent.ExecutionException failure) {
            throw failure.getCause() instanceof Exception cause ? cause : failure;
        }
    }

    private static final class Done implements AckCallback {
        private final CompletableFuture<AckResult> result = new CompletableFuture<>();

        @Override
        public void onSuccess(AckResult ack) {
            result.complete(ack);
        }

        @Override
        public void onException(Throwable failure) {
            result.completeExceptionally(failure);
        }

        JSONObject facts() throws Exception {
            AckResult ack = get(result);
            JSONObject facts = new JSONObject(true);
            facts.put("status", ack.getStatus().name());
            facts.put("handle", ack.getExtraInfo());
            facts.put("popTime", ack.getPopTime());
            return facts;
        }
    }
}
