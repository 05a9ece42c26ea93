package embermq.compat.client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Ends transactions as the property `fate` of their messages says: one letter for the local transaction, one for each
 * question of the broker, the last of them for all that follow. c commits, r rolls back, u is unknown, x throws.
 * With the property `localMs`, the local transaction takes so long. What the broker asks is written down.
 */
final class Deciding implements TransactionListener {
    private final Map<String, Integer> asked = new ConcurrentHashMap<>();
    private final JSONArray questions = new JSONArray();

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        String time = message.getUserProperty("localMs");
        if (time != null) {
            try {
                Thread.sleep(Long.parseLong(time));
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
        return decide(message, 0);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        JSONObject facts = Plain.message(message);
        facts.put("at", System.currentTimeMillis());
        facts.put("transactionId", message.getTransactionId());
        synchronized (this) {
            questions.add(facts);
            notifyAll();
        }
        return decide(message, asked.merge(message.getTransactionId(), 1, Integer::sum));
    }

    private static LocalTransactionState decide(Message message, int turn) {
        String fate = message.getUserProperty("fate");
        return switch (fate.charAt(Math.min(turn, fate.length() - 1))) {
            case 'c' -> LocalTransactionState.COMMIT_MESSAGE;
            case 'r' -> LocalTransactionState.ROLLBACK_MESSAGE;
            case 'u' -> LocalTransactionState.UNKNOW;
            default -> throw new IllegalStateException("the local transaction failed");
        };
    }

    /** All questions, as soon as there are `count` of them or the time is over. */
    synchronized JSONArray wait(JSONObject request) throws InterruptedException {
        long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
        for (long left = 1; questions.size() < request.getIntValue("count") && left > 0; ) {
            left = deadline - System.currentTimeMillis();
            wait(Math.max(1, left));
        }
        return (JSONArray) questions.clone();
    }

    /** Sends messages in transactions, one after the other. */
    static JSONArray send(DefaultMQProducer producer, JSONObject request) {
        JSONArray results = new JSONArray();
        for (JSONObject spec : Clients.list(request, "messages").toJavaList(JSONObject.class)) {
            JSONObject facts = new JSONObject(true);
            try {
                TransactionSendResult sent =
                    ((TransactionMQProducer) producer).sendMessageInTransaction(Sending.message(spec), null);
                facts.putAll(Sending.result(sent));
                facts.put("transactionId", sent.getTransactionId());
                facts.put("state", sent.getLocalTransactionState().name());
            } catch (Exception failure) {
                facts.put("error", Plain.failure(failure));
            }
            results.add(facts);
        }
        return results;
    }
}
