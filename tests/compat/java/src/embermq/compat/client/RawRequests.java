package embermq.compat.client;

import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Requests that no client makes by itself, sent by RocketMQ's own transport, one connection to each address:
 * {"address", "code", "fields": {...}, "body": text, "oneway", "timeoutMs"}.
 */
final class RawRequests {
    private NettyRemotingClient client;

    JSONObject send(JSONObject request) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(request.getIntValue("code"), null);
        HashMap<String, String> fields = new HashMap<>();
        Clients.object(request, "fields").forEach((name, value) -> fields.put(name, String.valueOf(value)));
        command.setExtFields(fields);
        if (request.getString("body") != null) {
            command.setBody(request.getString("body").getBytes(StandardCharsets.UTF_8));
        }
        if (request.getBooleanValue("oneway")) {
            open().invokeOneway(request.getString("address"), command, 3_000);
            return null;
        }
        return facts(open().invokeSync(request.getString("address"), command, request.getLongValue("timeoutMs")));
    }

    private synchronized NettyRemotingClient open() {
        if (client == null) {
            client = new NettyRemotingClient(new NettyClientConfig());
            client.start();
        }
        return client;
    }

    private static JSONObject facts(RemotingCommand answer) {
        JSONObject facts = new JSONObject(true);
        facts.put("code", answer.getCode());
        facts.put("remark", answer.getRemark());
        facts.put("fields", answer.getExtFields() == null ? new JSONObject() : Plain.of(answer.getExtFields()));
        facts.put("body", answer.getBody() == null ? null : new String(answer.getBody(), StandardCharsets.UTF_8));
        return facts;
    }
}
