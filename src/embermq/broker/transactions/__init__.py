"""Transactions: messages that nobody sees until their producer says how its own transaction ended."""
