"""The hot loops of `format`: same functions, same results, faster. Nothing here is needed to work."""
