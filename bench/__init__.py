"""What is measured: each module here is a bench, run as `python3 dev.py bench NAME`.

loadgen/    the load generator, in C, and how it is built and run
servers/    EmberMQ and the servers it is measured beside: started, checked, stopped
report/     medians, ratios, bars, tables, the plot and the page that shows them
results/    what the last whole run found
"""
