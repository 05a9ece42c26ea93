"""Load on EmberMQ and its peers, one after the other: the servers, the generator (in C), and the rounds of a bench."""
