package embermq.compat.client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer's listener that writes down what it is given. Its behaviour, all of it optional:
 *
 *   orderly      true: one queue at a time
 *   fail         so many deliveries of each message fail (those with reconsumeTimes below it)
 *   failTag      only messages with this tag fail
 *   delayLevel   of a failed message's next delivery; -1 for none
 *   suspendMs    how long a failed orderly message waits
 *   sleepMs      spent on each call
 *   replyWith    the name of the producer that answers each message, with `re: ` and its body
 *
 * A delivery is the message's facts with `at` and `until`, the times when the listener was called and returned,
 * `call`, the same for all messages of one call, and `reply`, what came of answering.
 */
final class Listening {
    private final JSONObject behaviour;
    private final Clients clients;
    private final JSONArray deliveries = new JSONArray();
    private int calls;

    Listening(JSONObject behaviour, Clients clients) {
        this.behaviour = behaviour;
        this.clients = clients;
    }

    void register(DefaultMQPushConsumer consumer) {
        if (behaviour.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) this::orderly);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) this::concurrently);
        }
    }

    private ConsumeConcurrentlyStatus concurrently(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        if (take(messages)) {
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
        context.setDelayLevelWhenNextConsume(behaviour.getIntValue("delayLevel"));
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    private ConsumeOrderlyStatus orderly(List<MessageExt> messages, ConsumeOrderlyContext context) {
        if (take(messages)) {
            return ConsumeOrderlyStatus.SUCCESS;
        }
        context.setSuspendCurrentQueueTimeMillis(behaviour.getIntValue("suspendMs"));
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
    }

    private boolean take(List<MessageExt> messages) {
        long at = System.currentTimeMillis();
        if (behaviour.containsKey("sleepMs")) {
            sleep(behaviour.getLongValue("sleepMs"));
        }
        JSONArray facts = new JSONArray();
        boolean ok = true;
        for (MessageExt message : messages) {
            JSONObject one = Plain.message(message);
            if (behaviour.containsKey("replyWith")) {
                one.put("reply", reply(message));
            }
            facts.add(one);
            boolean may = !behaviour.containsKey("failTag") || behaviour.getString("failTag").equals(message.getTags());
            ok &= !may || message.getReconsumeTimes() >= behaviour.getIntValue("fail");
        }
        long until = System.currentTimeMillis();
        synchronized (this) {
            calls++;
            for (Object each : facts) {
                ((JSONObject) each).put("at", at);
                ((JSONObject) each).put("until", until);
                ((JSONObject) each).put("call", calls);
            }
            deliveries.addAll(facts);
            notifyAll();
        }
        return ok;
    }

    private JSONObject reply(MessageExt message) {
        JSONObject facts = new JSONObject();
        try {
            DefaultMQProducer producer = clients.producer(behaviour.getString("replyWith"));
            byte[] body = ("re: " + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
            facts.put("status", producer.send(MessageUtil.createReplyMessage(message, body), 3_000).getSendStatus().name());
        } catch (Exception failure) {
            facts.put("error", Plain.failure(failure));
        }
        return facts;
    }

    /** All deliveries, as soon as there are `count` of them or the time is over. */
    synchronized JSONArray wait(JSONObject request) throws InterruptedException {
        long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
        for (long left = 1; deliveries.size() < request.getIntValue("count") && left > 0; ) {
            left = deadline - System.currentTimeMillis();
            wait(Math.max(1, left));
        }
        return (JSONArray) deliveries.clone();
    }

    private static void sleep(long time) {
        try {
            Thread.sleep(time);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
