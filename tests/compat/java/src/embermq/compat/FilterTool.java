package embermq.compat;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;

/**
 * Asks RocketMQ's own filters. One request a line on stdin, one answer a line on stdout:
 *
 *   {"sql": TEXT, "messages": [{NAME: VALUE, ...}, ...]}
 *       {"refused": REASON}, or {"isWhole": BOOL, "answers": ["true", "false", "null" or "error", ...]}, one for each message;
 *       isWhole: RocketMQ has read the text to its end
 *   {"tags": TEXT}
 *       {"refused": REASON}, or {"tags": [...]}, which are none if every message is wanted
 */
public final class FilterTool {
    // What makes a whole expression one that does not compile, and follows any other unseen.
    private static final String MISFIT = " AND 1";

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);  // whatever RocketMQ prints is no answer
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JSONObject request = JSON.parseObject(line, Feature.DisableSpecialKeyDetect);
            answers.println(request.containsKey("sql") ? answerSql(request) : answerTags(request));
            answers.flush();
        }
    }

    private static JSONObject answerSql(JSONObject request) {
        JSONObject answer = new JSONObject();
        String text = request.getString("sql");
        try {
            Expression expression = compile(text);
            answer.put("isWhole", !compiles(text + MISFIT));
            JSONArray found = new JSONArray();
            for (Object message : request.getJSONArray("messages")) {
                found.add(evaluate(expression, (JSONObject) message));
            }
            answer.put("answers", found);
        } catch (MQFilterException refusal) {
            answer.put("refused", String.valueOf(refusal.getCause() == null ? refusal : refusal.getCause()));
        }
        return answer;
    }

    private static Expression compile(String text) throws MQFilterException {
        return FilterFactory.INSTANCE.get("SQL92").compile(text);
    }

    private static boolean compiles(String text) {
        try {
            compile(text);
            return true;
        } catch (MQFilterException refusal) {
            return false;
        }
    }

    private static String evaluate(Expression expression, JSONObject message) {
        Map<String, String> properties = new HashMap<>();
        message.forEach((name, value) -> properties.put(name, (String) value));
        try {
            return String.valueOf(expression.evaluate(new MessageEvaluationContext(properties)));
        } catch (Exception failure) {
            return "error";
        }
    }

    private static JSONObject answerTags(JSONObject request) {
        JSONObject answer = new JSONObject();
        try {
            answer.put("tags", new TreeSet<>(FilterAPI.buildSubscriptionData("topic", request.getString("tags")).getTagsSet()));
        } catch (Exception refusal) {
            answer.put("refused", refusal.toString());
        }
        return answer;
    }
}
