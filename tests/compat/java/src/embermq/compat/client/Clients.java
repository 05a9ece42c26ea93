package embermq.compat.client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The clients that are open, by the names that the requests give them. A name is the client's instance name, too. */
final class Clients {
    private final Map<String, Object> clients = new ConcurrentHashMap<>();
    private final Map<String, Listening> listeners = new ConcurrentHashMap<>();

    /** Gives the client's id, as the broker lists it. */
    String make(JSONObject request) throws Exception {
        String name = request.getString("name");
        String group = request.getString("group");
        RPCHook signing = null;
        if (request.containsKey("accessKey")) {
            String secret = request.getString("secretKey");
            signing = new AclClientRPCHook(new SessionCredentials(request.getString("accessKey"), secret));
        }
        ClientConfig client = switch (request.getString("kind")) {
            case "producer" -> new DefaultMQProducer(group, signing);
            case "transaction" -> new TransactionMQProducer(group, signing);
            case "push" -> new DefaultMQPushConsumer(group, signing);
            case "pull" -> new DefaultMQPullConsumer(group, signing);
            case "lite" -> new DefaultLitePullConsumer(group, signing);
            case "admin" -> new DefaultMQAdminExt(signing, 10_000);
            default -> throw new IllegalArgumentException("no such kind: " + request.getString("kind"));
        };
        client.setInstanceName(name);
        client.setVipChannelEnabled(false);
        for (Map.Entry<String, Object> setting : object(request, "settings").entrySet()) {
            String setter = "set" + Character.toUpperCase(setting.getKey().charAt(0)) + setting.getKey().substring(1);
            Calls.call(client, setter, array(setting.getValue()));
        }
        if (client instanceof DefaultMQPushConsumer consumer) {
            Listening listening = new Listening(object(request, "listener"), this);
            listening.register(consumer);
            listeners.put(name, listening);
        }
        if (client instanceof TransactionMQProducer producer) {
            producer.setTransactionListener(new Deciding());
        }
        for (Object each : list(request, "subscribe")) {
            subscribe(client, (JSONArray) each);
        }
        clients.put(name, client);
        if (request.getBooleanValue("start")) {
            Calls.call(client, "start", new JSONArray());
        }
        return client.buildMQClientId();
    }

    /** [topic, tags], or [topic, expression, "SQL92"]. */
    private static void subscribe(ClientConfig client, JSONArray wanted) throws Exception {
        if (wanted.size() < 3) {
            Calls.call(client, "subscribe", wanted);
        } else if (client instanceof DefaultMQPushConsumer consumer) {
            consumer.subscribe(wanted.getString(0), MessageSelector.bySql(wanted.getString(1)));
        } else {
            ((DefaultLitePullConsumer) client).subscribe(wanted.getString(0), MessageSelector.bySql(wanted.getString(1)));
        }
    }

    Object close(String name) throws Exception {
        Object client = find(name);
        Impatient.run(() -> Calls.call(client, "shutdown", new JSONArray()));
        clients.remove(name);
        return null;
    }

    /** A client, or what its getters lead to: `name.offsetStore`. */
    Object find(String path) throws Exception {
        String[] steps = path.split("\\.");
        Object found = clients.get(steps[0]);
        if (found == null) {
            throw new IllegalArgumentException("no client named " + steps[0]);
        }
        for (int i = 1; i < steps.length; i++) {
            String getter = "get" + Character.toUpperCase(steps[i].charAt(0)) + steps[i].substring(1);
            found = Calls.call(found, getter, new JSONArray());
        }
        return found;
    }

    DefaultMQProducer producer(String name) throws Exception {
        return (DefaultMQProducer) find(name);
    }

    DefaultLitePullConsumer lite(String name) throws Exception {
        return (DefaultLitePullConsumer) find(name);
    }

    Deciding deciding(String name) throws Exception {
        return (Deciding) ((TransactionMQProducer) find(name)).getTransactionListener();
    }

    Listening listener(String name) {
        return listeners.get(name);
    }

    static List<MessageExt> poll(DefaultLitePullConsumer consumer, JSONObject request) {
        List<MessageExt> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + request.getLongValue("timeoutMs");
        for (long left = 1; found.size() < request.getIntValue("count") && left > 0; ) {
            left = deadline - System.currentTimeMillis();
            found.addAll(consumer.poll(Math.max(1, Math.min(left, 500))));
        }
        return found;
    }

    private static JSONArray array(Object value) {
        JSONArray array = new JSONArray();
        array.add(value);
        return array;
    }

    static JSONObject object(JSONObject from, String name) {
        JSONObject found = from.getJSONObject(name);
        return found == null ? new JSONObject() : found;
    }

    static JSONArray list(JSONObject from, String name) {
        JSONArray found = from.getJSONArray(name);
        return found == null ? new JSONArray() : found;
    }
}
