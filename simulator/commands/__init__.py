"""The commands that play simulations: demo, simulate, whatif, tune, and the console's replay and simulated day.

`cli` knows them by name alone (`cli.common.simulation`), so that it works without this package. `studies` plays
policies over scenarios and shows the results, for all of them.
"""
