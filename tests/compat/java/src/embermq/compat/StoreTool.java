package embermq.compat;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * Runs RocketMQ's own message store on a directory, told and answering in JSON.
 *
 *   write DIR SPEC.json    puts messages; prints one line per put
 *   read DIR SPEC.json     opens the store and prints all that is in it, as one object
 *   topics DIR SPEC.json   adds topics to config/topics.json, and prints what that holds
 *   serve                  does the same for requests on stdin, one per line:
 *                          {"command": "write", "read" or "topics", "directory": DIR, "spec": {...}}
 *                          and answers each with one line, {"result": ...} or {"error": text}
 *
 * A spec has, all of them optional:
 *
 *   config     properties of MessageStoreConfig and BrokerConfig by name
 *   topics     [{"name", "queues", "attributes": {...}}], added to those in config/topics.json
 *
 *   messages   (write) what to put, in order; see Put
 *   end        (write) "shutdown", or "halt" to end this process as a crash would
 *   dispatch   (write) false: do not wait until queues and index have followed the log
 *
 *   start      (read) false: load and look, without starting the store's threads or closing it cleanly
 *   queries    (read) [{"topic", "key", "maxNum", "begin", "end"}]   looked up in the index
 *   times      (read) [{"topic", "queueId", "timestamp"}]            offsets by time
 */
public final class StoreTool {
    private static final PrintStream ANSWERS = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);  // whatever RocketMQ prints is no answer
        switch (String.join(" ", arguments).split(" ")[0]) {
            case "write": {
                JSONObject spec = JSON.parseObject(Files.readString(Path.of(arguments[2])));
                for (Object put : write(Path.of(arguments[1]), spec)) {
                    answer(put);
                }
                end(spec);
                break;
            }
            case "read":
                answer(read(Path.of(arguments[1]), JSON.parseObject(Files.readString(Path.of(arguments[2])))));
                break;
            case "topics":
                answer(topics(Path.of(arguments[1]), JSON.parseObject(Files.readString(Path.of(arguments[2])))));
                break;
            case "serve":
                serve();
                break;
            default:
                System.err.println("StoreTool: write DIR SPEC.json, read DIR SPEC.json, topics DIR SPEC.json or serve");
                System.exit(2);
        }
        System.exit(0);  // threads of a store that was only loaded do not end by themselves
    }

    private static void serve() throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JSONObject request = JSON.parseObject(line);
            Path directory = Path.of(request.getString("directory"));
            JSONObject spec = request.getJSONObject("spec");
            try {
                answer(Map.of("result", switch (request.getString("command")) {
                    case "write" -> write(directory, spec);
                    case "topics" -> topics(directory, spec);
                    default -> read(directory, spec);
                }));
            } catch (Throwable failure) {
                failure.printStackTrace();
                answer(Map.of("error", failure.toString()));
            }
            end(spec);
        }
    }

    private static JSONArray write(Path directory, JSONObject spec) throws Exception {
        JSONArray results = new JSONArray();
        OpenStore store = new OpenStore(directory, spec);
        store.start();
        for (Object message : list(spec, "messages")) {
            results.add(Put.put(store, (JSONObject) message));
        }
        store.topics.save();
        if (spec.getBooleanValue("dispatch") || !spec.containsKey("dispatch")) {
            store.waitForDispatch();
        }
        if (!crashes(spec)) {
            store.shutdown();
        }
        return results;
    }

    private static JSONObject read(Path directory, JSONObject spec) throws Exception {
        OpenStore store = new OpenStore(directory, spec);
        if (spec.containsKey("start") && !spec.getBooleanValue("start")) {
            return new Facts(store).all(list(spec, "queries"), list(spec, "times"));
        }
        store.start();
        store.waitForDispatch();
        for (Object place : list(spec, "queues")) {  // of a RocksDB, those that were not asked for are not known
            store.store.findConsumeQueue(((JSONArray) place).getString(0), ((JSONArray) place).getIntValue(1));
        }
        JSONObject facts = new Facts(store).all(list(spec, "queries"), list(spec, "times"));
        store.shutdown();
        return facts;
    }

    private static JSONObject topics(Path directory, JSONObject spec) {
        TopicsFile file = new TopicsFile(directory);
        file.add(list(spec, "topics"));
        file.save();
        return file.facts();
    }

    private static void end(JSONObject spec) {
        if (crashes(spec)) {
            Runtime.getRuntime().halt(0);
        }
    }

    private static boolean crashes(JSONObject spec) {
        return "halt".equals(spec.getString("end"));
    }

    static JSONArray list(JSONObject from, String name) {
        return from.containsKey(name) ? from.getJSONArray(name) : new JSONArray();
    }

    private static void answer(Object value) {
        ANSWERS.println(JSON.toJSONString(value, SerializerFeature.DisableCircularReferenceDetect,
            SerializerFeature.WriteMapNullValue, SerializerFeature.WriteNonStringKeyAsString));
        ANSWERS.flush();
    }
}
