"""The structures a store is made of."""
