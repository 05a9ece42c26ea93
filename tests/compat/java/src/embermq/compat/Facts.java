package embermq.compat;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.File;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexFile;
import org.apache.rocketmq.store.index.IndexHeader;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;

/** All that RocketMQ sees in an open store, in the shape and with the names of the golden expected.json. */
final class Facts {
    private static final int PULL = 32;

    private final OpenStore open;
    private final DefaultMessageStore store;

    Facts(OpenStore open) {
        this.open = open;
        this.store = open.store;
    }

    JSONObject all(JSONArray queries, JSONArray times) throws Exception {
        JSONObject facts = new JSONObject(true);
        facts.putAll(open.found);
        facts.put("commitLog", commitLog());
        facts.put("consumeQueues", consumeQueues());
        facts.put("index", index(queries));
        facts.put("offsetByTime", offsetsByTime(times));
        return facts;
    }

    static JSONObject checkpoint(Path file) throws Exception {
        if (!Files.exists(file)) {
            return null;
        }
        StoreCheckpoint checkpoint = new StoreCheckpoint(file.toString());
        JSONObject facts = new JSONObject(true);
        facts.put("physicMsgTimestamp", checkpoint.getPhysicMsgTimestamp());
        facts.put("logicsMsgTimestamp", checkpoint.getLogicsMsgTimestamp());
        facts.put("indexMsgTimestamp", checkpoint.getIndexMsgTimestamp());
        facts.put("masterFlushedOffset", checkpoint.getMasterFlushedOffset());
        facts.put("confirmPhyOffset", checkpoint.getConfirmPhyOffset());
        return facts;
    }

    private JSONObject commitLog() throws Exception {
        JSONArray names = new JSONArray();
        JSONArray records = new JSONArray();
        JSONArray blanks = new JSONArray();
        long end = -1;
        for (File file : Records.files(config().getStorePathCommitLog().split(MixAll.MULTI_PATH_SPLITTER))) {
            names.add(file.getName());
            if (end < 0) {
                end = Records.walk(file, records, blanks);
            }
        }
        JSONObject facts = new JSONObject(true);
        facts.put("fileSize", config().getMappedFileSizeCommitLog());
        facts.put("files", names);
        facts.put("endOfRecords", end);
        facts.put("blanks", blanks);
        facts.put("records", records);
        facts.put("minOffset", store.getMinPhyOffset());
        facts.put("maxOffset", store.getMaxPhyOffset());
        return facts;
    }

    private JSONObject consumeQueues() {
        JSONObject facts = new JSONObject(true);
        for (String topic : new TreeMap<>(store.getConsumeQueueTable()).keySet()) {
            ConcurrentMap<Integer, ConsumeQueueInterface> queues = store.getConsumeQueueTable().get(topic);
            JSONObject found = new JSONObject(true);
            new TreeMap<>(queues).forEach((id, queue) -> found.put(String.valueOf(id), consumeQueue(queue)));
            facts.put(topic, found);
        }
        return facts;
    }

    private JSONObject consumeQueue(ConsumeQueueInterface queue) {
        JSONObject facts = new JSONObject(true);
        facts.put("type", queue.getCQType().toString());
        facts.put("minOffset", queue.getMinOffsetInQueue());
        facts.put("maxOffset", queue.getMaxOffsetInQueue());
        facts.put("maxPhysicOffset", queue.getMaxPhysicOffset());
        JSONArray units = new JSONArray();
        JSONArray extended = new JSONArray();
        long at = Math.max(0, queue.getMinOffsetInQueue());
        for (long before = -1; before < at && at < queue.getMaxOffsetInQueue(); ) {
            before = at;
            ReferredIterator<CqUnit> run = queue.iterateFrom(at);  // to the end of one file
            while (run != null && run.hasNext()) {
                CqUnit unit = run.next();
                units.add(unit(unit, queue.getCQType().toString().equals("BatchCQ")));
                if (unit.getCqExtUnit() != null) {
                    extended.add(extended(unit));
                }
                at = unit.getQueueOffset() + Math.max(1, unit.getBatchNum());
            }
            if (run != null) {
                run.release();
            }
        }
        facts.put("units", units);
        if (!extended.isEmpty()) {
            facts.put("ext", extended);
        }
        facts.put("messages", messages(queue));
        return facts;
    }

    private static JSONArray unit(CqUnit unit, boolean batch) {
        JSONArray facts = new JSONArray();
        facts.add(unit.getPos());
        facts.add(unit.getSize());
        facts.add(unit.getTagsCode());
        if (batch) {
            facts.add(unit.getQueueOffset());
            facts.add((int) unit.getBatchNum());
        }
        return facts;
    }

    private static JSONObject extended(CqUnit unit) {
        byte[] bits = unit.getCqExtUnit().getFilterBitMap();
        JSONObject facts = new JSONObject(true);
        facts.put("queueOffset", unit.getQueueOffset());
        facts.put("tagsCode", unit.getCqExtUnit().getTagsCode());
        facts.put("msgStoreTime", unit.getCqExtUnit().getMsgStoreTime());
        facts.put("filterBitMap", bits == null ? null : Records.hex(bits));
        return facts;
    }

    /** What a consumer would get, pulling from the first offset to the last; bodies are unpacked. */
    private JSONArray messages(ConsumeQueueInterface queue) {
        JSONArray messages = new JSONArray();
        long offset = Math.max(0, queue.getMinOffsetInQueue());
        while (offset < queue.getMaxOffsetInQueue()) {
            GetMessageResult result = store.getMessage("compat", queue.getTopic(), queue.getQueueId(), offset, PULL, null);
            boolean goesOn = result != null && result.getNextBeginOffset() > offset;
            if (result != null && result.getStatus() == GetMessageStatus.FOUND) {
                for (int i = 0; i < result.getMessageMapedList().size(); i++) {
                    messages.add(message(result.getMessageMapedList().get(i), result.getMessageQueueOffset().get(i)));
                }
                result.release();
            }
            if (!goesOn) {
                JSONObject stopped = new JSONObject(true);
                stopped.put("stoppedAt", offset);
                stopped.put("status", result == null ? null : result.getStatus());
                messages.add(stopped);
                break;
            }
            offset = result.getNextBeginOffset();
        }
        return messages;
    }

    private static JSONObject message(SelectMappedBufferResult bytes, long offset) {
        MessageExt message = MessageDecoder.decode(bytes.getByteBuffer().duplicate(), true, true, false, false);
        JSONObject facts = new JSONObject(true);
        facts.put("offset", offset);  // in the queue that was asked, which may be another than the record's
        facts.put("topic", message.getTopic());
        facts.put("queueId", message.getQueueId());
        facts.put("queueOffset", message.getQueueOffset());
        facts.put("physicalOffset", message.getCommitLogOffset());
        facts.put("bodyHex", Records.hex(message.getBody()));
        facts.put("properties", Records.properties(message));
        facts.put("tags", message.getTags());
        facts.put("keys", message.getKeys());
        return facts;
    }

    private JSONObject index(JSONArray queries) throws Exception {
        IndexService service = (IndexService) field(store, DefaultMessageStore.class, "indexService");
        JSONArray files = new JSONArray();
        for (Object file : (List<?>) field(service, IndexService.class, "indexFileList")) {
            files.add(indexFile((IndexFile) file));
        }
        JSONArray answers = new JSONArray();
        for (Object query : queries) {
            answers.add(indexQuery(service, (JSONObject) query));
        }
        JSONObject facts = new JSONObject(true);
        facts.put("hashSlotNum", config().getMaxHashSlotNum());
        facts.put("indexNum", config().getMaxIndexNum());
        facts.put("files", files);
        facts.put("queries", answers);
        return facts;
    }

    private static JSONObject indexFile(IndexFile file) throws Exception {
        IndexHeader header = (IndexHeader) field(file, IndexFile.class, "indexHeader");
        JSONObject facts = new JSONObject(true);
        facts.put("name", new File(file.getFileName()).getName());
        facts.put("beginTimestamp", header.getBeginTimestamp());
        facts.put("endTimestamp", header.getEndTimestamp());
        facts.put("beginPhyOffset", header.getBeginPhyOffset());
        facts.put("endPhyOffset", header.getEndPhyOffset());
        facts.put("hashSlotCount", header.getHashSlotCount().get());
        facts.put("indexCount", header.getIndexCount());
        return facts;
    }

    private static JSONObject indexQuery(IndexService service, JSONObject query) {
        String topic = query.getString("topic");
        String key = query.getString("key");
        int limit = query.containsKey("maxNum") ? query.getIntValue("maxNum") : 32;
        long begin = query.getLongValue("begin");
        long end = query.containsKey("end") ? query.getLongValue("end") : Long.MAX_VALUE;
        JSONObject facts = new JSONObject(true);
        facts.put("topic", topic);
        facts.put("key", key);
        facts.put("maxNum", limit);
        facts.put("begin", begin);
        facts.put("end", end);
        facts.put("physicalOffsets", service.queryOffset(topic, key, limit, begin, end).getPhyOffsets());
        return facts;
    }

    private JSONArray offsetsByTime(JSONArray times) {
        JSONArray answers = new JSONArray();
        for (Object time : times) {
            JSONObject facts = new JSONObject((JSONObject) time);
            String topic = facts.getString("topic");
            int queue = facts.getIntValue("queueId");
            long timestamp = facts.getLongValue("timestamp");
            facts.put("lower", store.getOffsetInQueueByTime(topic, queue, timestamp, BoundaryType.LOWER));
            facts.put("upper", store.getOffsetInQueueByTime(topic, queue, timestamp, BoundaryType.UPPER));
            answers.add(facts);
        }
        return answers;
    }

    private MessageStoreConfig config() {
        return open.config;
    }

    private static Object field(Object from, Class<?> type, String name) throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(from);
    }
}
