package embermq.compat;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.File;
import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;

/** The records of a commit-log file, found by walking it and decoded by RocketMQ. */
final class Records {
    private static final int MAGIC_V1 = 0xDAA320A7;
    private static final int MAGIC_V2 = 0xDAA320AB;
    private static final int MAGIC_BLANK = 0xCBD43194;
    private static final int BODY_SHOWN = 256;  // longer ones as their hash

    /** The files of all these directories, in the order of their names. */
    static List<File> files(String... directories) {
        List<File> files = new ArrayList<>();
        for (String directory : directories) {
            File[] found = new File(directory).listFiles(File::isFile);
            files.addAll(found == null ? List.of() : List.of(found));
        }
        files.sort(Comparator.comparing(File::getName));
        return files;
    }

    /** Add what is in the file; return where the log ends, or -1 if it goes on in the next file. */
    static long walk(File file, JSONArray records, JSONArray blanks) throws Exception {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(file.toPath()));
        long base = Long.parseLong(file.getName());
        int at = 0;
        while (data.capacity() - at >= 8) {
            int size = data.getInt(at);
            int magic = data.getInt(at + 4);
            if (magic == MAGIC_BLANK) {
                JSONObject blank = new JSONObject(true);
                blank.put("physicalOffset", base + at);
                blank.put("size", size);
                blanks.add(blank);
                return -1;
            }
            boolean known = magic == MAGIC_V1 || magic == MAGIC_V2;
            if (!known || size <= 0 || size > data.capacity() - at) {
                break;
            }
            ByteBuffer bytes = data.slice(at, size);
            MessageExt message = MessageDecoder.decode(bytes.duplicate(), true, false, false, false);
            if (message == null || !isWhole(message)) {
                break;
            }
            records.add(facts(base + at, magic, message, bytes));
            at += size;
        }
        return base + at;
    }

    private static boolean isWhole(MessageExt message) {
        byte[] body = message.getBody();
        boolean sound = body == null || body.length == 0 || UtilAll.crc32(body) == message.getBodyCRC();
        return sound && message.getTopic() != null && !message.getTopic().isEmpty();
    }

    private static JSONObject facts(long position, int magic, MessageExt message, ByteBuffer bytes) throws Exception {
        JSONObject facts = new JSONObject(true);
        facts.put("physicalOffset", position);
        facts.put("storedPhysicalOffset", message.getCommitLogOffset());
        facts.put("totalSize", message.getStoreSize());
        facts.put("magic", String.format("%08X", magic));
        facts.put("bodyCRC", message.getBodyCRC());
        facts.put("queueId", message.getQueueId());
        facts.put("flag", message.getFlag());
        facts.put("queueOffset", message.getQueueOffset());
        facts.put("sysFlag", message.getSysFlag());
        facts.put("bornTimestamp", message.getBornTimestamp());
        facts.put("bornHost", host(message.getBornHost()));
        facts.put("storeTimestamp", message.getStoreTimestamp());
        facts.put("storeHost", host(message.getStoreHost()));
        facts.put("reconsumeTimes", message.getReconsumeTimes());
        facts.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        facts.put("topic", message.getTopic());
        facts.put("properties", properties(message));
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        facts.put("bodySize", body.length);
        facts.put(body.length <= BODY_SHOWN ? "bodyHex" : "bodySha256", body.length <= BODY_SHOWN ? hex(body) : hash(body));
        if ((message.getSysFlag() & MessageSysFlag.COMPRESSED_FLAG) != 0) {
            byte[] plain = MessageDecoder.decode(bytes.duplicate(), true, true, false, false).getBody();
            facts.put("plainBodySize", plain.length);
            facts.put("plainBodySha256", hash(plain));
        }
        facts.put("msgId", message.getMsgId());
        return facts;
    }

    static Map<String, String> properties(MessageExt message) {
        return message.getProperties() == null ? Map.of() : new TreeMap<>(message.getProperties());
    }

    private static String host(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        String text = host.getAddress().getHostAddress();
        return (host.getAddress() instanceof Inet6Address ? "[" + text + "]" : text) + ":" + host.getPort();
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "" : HexFormat.of().formatHex(bytes);
    }

    private static String hash(byte[] bytes) throws Exception {
        return hex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }
}
