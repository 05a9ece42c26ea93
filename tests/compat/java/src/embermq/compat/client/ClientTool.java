package embermq.compat.client;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs RocketMQ's own clients and mqadmin, told and answering in JSON, one line each.
 *
 *   {"id": 1, "op": "make", ...}    answered, in any order, with   {"id": 1, "result": ...}
 *                                                             or   {"id": 1, "error": {"type", "code", "message"}}
 *
 * Every request runs in a thread of its own, so several may wait at the same time.
 *
 *   make      name, kind (producer, transaction, push, pull, lite, admin), group, settings (setters by name), subscribe,
 *             listener; starts the client unless start is false
 *   call      target (a name, or name.property), method, args: any public method; see Calls
 *   close     target
 *   send      target, messages, mode; see Sending
 *   flood     target, topic, threads, count: that many sends in each thread
 *   transact  target, messages: each in a transaction of its own; see Deciding
 *   questions target, count, timeoutMs: waits until the broker has asked so often; gives all that it asked
 *   request   target, message, timeoutMs: a request and its reply
 *   deliveries  target, count, timeoutMs: waits for that many deliveries; gives all so far; see Listening
 *   poll      target, count, timeoutMs: what a lite pull consumer gets
 *   pops      target (a producer), what (pop, ack, ackBatch, change), …; see Popping
 *   raw       address, code, fields, body, oneway: one frame and its answer; see RawRequests
 *   mqadmin   args: what the command printed
 */
public final class ClientTool {
    private static final PrintStream ANSWERS =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    private final Clients clients = new Clients();
    private final RawRequests raw = new RawRequests();

    public static void main(String[] arguments) throws Exception {
        Mqadmin.takeOverOutput();  // whatever else is printed is no answer
        ClientTool tool = new ClientTool();
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JSONObject request = JSON.parseObject(line);
            threads.execute(() -> tool.serve(request));
        }
        Runtime.getRuntime().halt(0);  // clients that a failed test left behind need no farewell
    }

    private void serve(JSONObject request) {
        JSONObject answer = new JSONObject();
        answer.put("id", request.get("id"));
        try {
            answer.put("result", Plain.of(run(request)));
        } catch (Throwable failure) {
            answer.put("error", Plain.failure(failure));
        }
        String line = JSON.toJSONString(answer, SerializerFeature.WriteMapNullValue,
            SerializerFeature.DisableCircularReferenceDetect);
        synchronized (ANSWERS) {
            ANSWERS.println(line);
            ANSWERS.flush();
        }
    }

    private Object run(JSONObject request) throws Throwable {
        String target = request.getString("target");
        return switch (request.getString("op")) {
            case "make" -> clients.make(request);
            case "close" -> clients.close(target);
            case "call" -> Calls.call(clients.find(target), request.getString("method"), request.getJSONArray("args"));
            case "send" -> Sending.send(clients.producer(target), request);
            case "flood" -> Sending.flood(clients.producer(target), request);
            case "transact" -> Deciding.send(clients.producer(target), request);
            case "questions" -> clients.deciding(target).wait(request);
            case "request" -> Sending.request(clients.producer(target), request);
            case "deliveries" -> clients.listener(target).wait(request);
            case "poll" -> Clients.poll(clients.lite(target), request);
            case "pops" -> new Popping(clients.producer(target), request).run();
            case "raw" -> raw.send(request);
            case "mqadmin" -> Mqadmin.run(request.getJSONArray("args").toJavaList(String.class));
            default -> throw new IllegalArgumentException("no such op: " + request.getString("op"));
        };
    }
}
