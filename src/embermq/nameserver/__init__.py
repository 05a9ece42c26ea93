"""Who serves which topic: what brokers tell, and what clients ask. No sockets."""
