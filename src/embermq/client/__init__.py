"""Clients of brokers, EmberMQ's or RocketMQ's: sending, consuming as a group, reading without one."""
