package embermq.compat.client;

import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.namesrv.NamesrvStartup;

/**
 * RocketMQ's own name server and broker in one process, until SIGTERM: RealServers NAMESRV.conf BROKER.conf.
 * The tests that EmberMQ must pass are run against them first.
 */
public final class RealServers {
    public static void main(String[] arguments) {
        NamesrvStartup.main0(new String[] {"-c", arguments[0]});
        BrokerStartup.start(BrokerStartup.createBrokerController(new String[] {"-c", arguments[1]}));
    }
}
