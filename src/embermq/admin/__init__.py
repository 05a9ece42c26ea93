"""What operators do with a cluster, EmberMQ's or RocketMQ's: the operations behind the commands."""
