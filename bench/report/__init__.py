"""From samples to a page: medians, ratios, bars, tables and a plot."""
